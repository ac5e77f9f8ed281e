// Package netpipe speaks the protocol of NetPIPE 3.x over TCP with the program
// NPtcp, at either end.
//
//  1. Settings are what both ends must have been started with.
//  2. A Schedule gives the message sizes, one by one, in NetPIPE's order.
//  3. Repeats, OneWay and Fastest turn times into the next count and result.
//  4. Control, repeat count and time are the only bytes besides the payload.
//  5. A Line is one result as the file np.out holds it.
//  6. A Peer stands in the place of an NPtcp, and waits for nothing without end.
//
// Nothing in NetPIPE is negotiated and a message has neither length nor type, so
// both ends must compute exactly the same. docs/wire/netpipe.md describes the
// whole; the section names in this package are its headings. NetPIPE 5.x speaks
// another protocol.
package netpipe

import (
	"errors"
	"fmt"
	"strconv"
)

// Port is the TCP port on which NPtcp listens unless -P says otherwise.
const Port = 5002

// What NPtcp does without options.
const (
	DefaultStart        = 1
	DefaultUpper        = 10_000_000
	DefaultPerturbation = 3
)

// IntegrityStart is the smallest message of the integrity check unless a later
// -l says otherwise: an int32 and one byte.
const IntegrityStart = 5

// MaxBytes is the largest amount per message that a result can hold, both
// directions together. NPtcp counts bits in an int32: from 256 MiB the rates in
// its np.out are wrong.
const MaxBytes = 1<<28 - 1

// Settings are the options that both ends of a test must share. Nothing on the
// wire tells one end what the other was started with. The zero value is not
// valid; start from Default.
type Settings struct {
	Start         int  // -l: first message size, bytes, from 1
	Upper         int  // -u: bound of the sizes before perturbation, bytes, from Start
	Perturbation  int  // -p: each size is also tested this many bytes below and above; 0 is none
	Streaming     bool // -s: one direction only; the connection is reset after each trial
	Reset         bool // -r: the connection is reset after each trial
	Bidirectional bool // -2: both ends send at once; never with Streaming
	Integrity     bool // -i: check the payload instead of the time
	Final         bool // built with FINAL: 7 trials of 0.25 s, not 3 of 0.10 s; Debian's is not
}

// Default returns what NPtcp does without options.
func Default() Settings {
	return Settings{Start: DefaultStart, Upper: DefaultUpper, Perturbation: DefaultPerturbation}
}

// WithIntegrity returns s as -i changes it in NPtcp: sizes from IntegrityStart,
// without perturbation. Options -l and -p that follow -i count again.
func (s Settings) WithIntegrity() Settings {
	s.Integrity, s.Start, s.Perturbation = true, IntegrityStart, 0
	return s
}

// Resets reports whether both ends reconnect after each trial: -r, and -s,
// which implies it.
func (s Settings) Resets() bool { return s.Reset || s.Streaming }

// Trials returns how often each size is tested: 3, 7 with Final, and 1 for an
// integrity check. The number is not on the wire.
func (s Settings) Trials() int {
	if s.Integrity {
		return 1
	}
	return s.leastRepeats()
}

// Validate returns every fault of s, joined: sizes out of range, or options that
// NPtcp refuses to combine. A schedule of valid settings always ends.
func (s Settings) Validate() error {
	var faults []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	add(s.Start < 1, "-l %d: the first size must be at least 1 byte", s.Start)
	add(s.Upper < s.Start, "-u %d: the upper bound is below the first size, %d", s.Upper, s.Start)
	add(s.Perturbation < 0, "-p %d: the perturbation is negative", s.Perturbation)
	add(s.Streaming && s.Bidirectional, "-s and -2 exclude each other: a stream has one direction")
	// Nothing above is tested without a sum that could overflow.
	largest := MaxBytes
	if s.Bidirectional {
		largest /= 2
	}
	add(s.Perturbation > largest || s.Upper > largest-max(0, min(s.Perturbation, largest)),
		"-u %d -p %d: sizes above %d bytes overflow NetPIPE's count of bits", s.Upper, s.Perturbation, largest)
	return errors.Join(faults...)
}

// Bounded returns s with the upper bound that NPtcp uses on sockets with these
// buffers, in bytes as getsockopt tells them: with -2 no more than both together,
// because both ends write before they read. It is an error if no size is left.
//
// Each end bounds its own schedule by its own sockets, so that two kernels which
// grant different buffers disagree about where it ends.
func (s Settings) Bounded(sendBuffer, receiveBuffer int) (Settings, error) {
	if !s.Bidirectional {
		return s, nil
	}
	if sendBuffer < 1 || receiveBuffer < 1 {
		return Settings{}, fmt.Errorf("socket buffers of %d and %d bytes are not positive", sendBuffer, receiveBuffer)
	}
	// The comparison leaves no sum that could overflow.
	if receiveBuffer < s.Upper && sendBuffer < s.Upper-receiveBuffer {
		s.Upper = sendBuffer + receiveBuffer
	}
	if s.Upper < s.Start {
		return Settings{}, fmt.Errorf("-l %d with -2: the socket buffers, %d and %d bytes, hold no message of that size",
			s.Start, sendBuffer, receiveBuffer)
	}
	return s, nil
}

// Arguments returns the options with which an NPtcp at the other end does what s
// says. The order matters: -i overwrites what -l and -p said before it. Final is
// a matter of the build and no argument.
func (s Settings) Arguments() []string {
	var args []string
	for _, o := range []struct {
		set  bool
		flag string
	}{{s.Integrity, "-i"}, {s.Streaming, "-s"}, {s.Reset, "-r"}, {s.Bidirectional, "-2"}} {
		if o.set {
			args = append(args, o.flag)
		}
	}
	return append(args, "-l", strconv.Itoa(s.Start), "-u", strconv.Itoa(s.Upper), "-p", strconv.Itoa(s.Perturbation))
}
