// Package netpipe speaks the protocol of NetPIPE 3.x over TCP with the program NPtcp, at either
// end.
//
//  1. Settings are the options that both ends must share.
//  2. A Schedule yields the message sizes, one by one, in NetPIPE's order.
//  3. Repeats, OneWay and Fastest turn times into the next count and result.
//  4. Control, repeat count and time are the only bytes besides the payload.
//  5. A Line is one result in the format of np.out.
//  6. A Peer replaces an NPtcp, with timeouts.
//
// NetPIPE negotiates nothing, and a message has neither length nor type, so both ends must
// compute exactly the same. docs/wire/netpipe.md describes it all; the section names in this
// package are its headings. NetPIPE 5.x has another protocol.
package netpipe

import (
	"errors"
	"fmt"
	"strconv"
)

// Port is the default TCP port of NPtcp.
const Port = 5002

// NPtcp's defaults.
const (
	DefaultStart        = 1
	DefaultUpper        = 10_000_000
	DefaultPerturbation = 3
)

// IntegrityStart is the smallest message of the integrity check, unless a later -l overrides
// it: an int32 and one byte.
const IntegrityStart = 5

// MaxBytes is the largest amount per message that a result can hold, both
// directions together. NPtcp counts bits in an int32: from 256 MiB the rates in
// its np.out are wrong.
const MaxBytes = 1<<28 - 1

// Settings are the options that both ends of a test must share. They are not sent on the wire.
// The zero value is not valid; start from Default.
type Settings struct {
	Start         int  // -l: first message size, bytes, from 1
	Upper         int  // -u: bound of the sizes before perturbation, bytes, from Start
	Perturbation  int  // -p: each size is also tested this many bytes below and above; 0 if none
	Streaming     bool // -s: one direction only; the connection is reset after each trial
	Reset         bool // -r: the connection is reset after each trial
	Bidirectional bool // -2: both ends send at once; never with Streaming
	Integrity     bool // -i: check the payload instead of the time
	Final         bool // built with FINAL: 7 trials of 0.25 s, not 3 of 0.10 s; Debian's is not
}

// Default returns NPtcp's defaults.
func Default() Settings {
	return Settings{Start: DefaultStart, Upper: DefaultUpper, Perturbation: DefaultPerturbation}
}

// WithIntegrity returns s as -i changes it in NPtcp: sizes from IntegrityStart, without
// perturbation. Options -l and -p after -i override that.
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

// Validate returns every fault of s, joined: sizes out of range, or options that NPtcp refuses
// to combine. The schedule of valid settings always ends.
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
	// The checks above avoid sums that could overflow.
	largest := MaxBytes
	if s.Bidirectional {
		largest /= 2
	}
	add(s.Perturbation > largest || s.Upper > largest-max(0, min(s.Perturbation, largest)),
		"-u %d -p %d: sizes above %d bytes overflow NetPIPE's count of bits", s.Upper, s.Perturbation, largest)
	return errors.Join(faults...)
}

// Bounded returns s with the upper bound that NPtcp uses on sockets with these buffers, in
// bytes as getsockopt reports them: with -2 at most both together, because both ends write
// before they read. It returns an error if no size is left.
//
// Each end bounds its own schedule by its own sockets, so that two kernels that grant different
// buffers disagree about its end.
func (s Settings) Bounded(sendBuffer, receiveBuffer int) (Settings, error) {
	if !s.Bidirectional {
		return s, nil
	}
	if sendBuffer < 1 || receiveBuffer < 1 {
		return Settings{}, fmt.Errorf("socket buffers of %d and %d bytes are not positive", sendBuffer, receiveBuffer)
	}
	// This comparison cannot overflow.
	if receiveBuffer < s.Upper && sendBuffer < s.Upper-receiveBuffer {
		s.Upper = sendBuffer + receiveBuffer
	}
	if s.Upper < s.Start {
		return Settings{}, fmt.Errorf("-l %d with -2: the socket buffers, %d and %d bytes, hold no message of that size",
			s.Start, sendBuffer, receiveBuffer)
	}
	return s, nil
}

// Arguments returns the options with which an NPtcp at the other end has the settings s. The
// order matters: -i overrides -l and -p before it. Final is a build option and no argument.
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
