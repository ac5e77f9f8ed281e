// Package peer plays either role of an iperf3 test against a foreign program.
//
// Package iperf3 says what the bytes mean; here they move. A test goes like
// this (docs/wire/iperf3.md, sections 3 and 6):
//
//  1. The client names a test with a cookie and sends its parameters.
//  2. It opens every stream, one after the other, because their order is all
//     that tells the server who sends on which.
//  3. Each direction is a way: connections in the hands of engine tcpbulk, or
//     datagram flows. Ways start when the server says that data may flow.
//  4. The client ends the test and tells its results; the server adds its own.
//
// Both ends can count the same only where nothing is left in flight. So a
// client that sends waits until the far kernel has acknowledged everything
// before it ends the test, and a server that receives reads on after the end
// until it has what the client says that it sent.
package peer

import (
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf3"
)

// ErrBusy says that the server runs a test for somebody else. A server that
// closed before its first word is taken for busy too, because the reset of its
// socket can overtake what it wrote.
var ErrBusy = errors.New("the iperf3 server is busy")

// Times that neither end may exceed.
const (
	// patience bounds each wait of a client for the server's next word, which
	// may have other work, and serverPatience each wait of a server, as of real
	// ones since 3.15: a silent client keeps others out for so long. Opening all
	// streams, one after the other, may take a client openingTime.
	patience       = 30 * time.Second
	serverPatience = 10 * time.Second
	openingTime    = 30 * time.Second
	// drainLimit is how long a client waits until its last bytes are
	// acknowledged, and lateLimit how long a server reads on after the end.
	drainLimit = 10 * time.Second
	lateLimit  = time.Second
	// lateQuiet is how long nothing must have come for a server to believe that
	// nothing more will, where it cannot know how much there is.
	lateQuiet = 200 * time.Millisecond
	// readingTime is how long a client then waits before it ends the test: what
	// has been acknowledged has yet to be read by the far program, which counts
	// nothing after the end.
	readingTime = 50 * time.Millisecond
	// betweenTests is how long a client believes that a busy server is only
	// finishing another test, and farewell how long it waits for the server to
	// close after one.
	betweenTests = 2 * time.Second
	farewell     = time.Second
	// tick is how often the kernel's queues are looked at while nothing but
	// their state is waited for.
	tick = time.Millisecond
)

// version is what linerate says of itself in client_version. Servers print it
// and go by nothing in it.
const version = "linerate"

// seconds returns d in whole seconds, rounded up: the protocol has no others.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// directions returns the model's direction of a test and its parts, in the
// order in which their streams are opened.
func directions(d iperf3.Direction) model.Direction {
	switch d {
	case iperf3.Reverse:
		return model.From
	case iperf3.Bidirectional:
		return model.Both
	default:
		return model.To
	}
}

// part returns the streams of all on which sender writes.
func part(all []iperf3.Stream, sender iperf3.Party) []iperf3.Stream {
	var some []iperf3.Stream
	for _, s := range all {
		if s.Sender == sender {
			some = append(some, s)
		}
	}
	return some
}

// perStream divides a rate by the streams that share it, in bit/s; a rate of
// 0 stays unlimited, and any other one stays limited.
func perStream(rate units.BitRate, streams int) int64 {
	if rate <= 0 {
		return 0
	}
	return max(1, int64(float64(rate)/float64(max(streams, 1))))
}

// unexpected is the error for a state that has no place here.
func unexpected(got iperf3.State, want string) error {
	return fmt.Errorf("the peer said %v where %s was due", got, want)
}
