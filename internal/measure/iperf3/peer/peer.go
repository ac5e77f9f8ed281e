// Package peer plays either role of an iperf3 test against a foreign program.
//
// Package iperf3 defines the bytes; this package sends them. A test goes like this
// (docs/wire/iperf3.md, sections 3 and 6):
//
//  1. The client names a test with a cookie and sends its parameters.
//  2. It opens every stream, one after the other, because their order alone tells the server
//     who sends on which.
//  3. Each direction is a way: connections that engine tcpbulk owns, or datagram flows. Ways
//     start when the server announces that data may flow.
//  4. The client ends the test and sends its results; the server sends its own.
//
// Both ends can count the same only if nothing is left in flight. So a sending client waits
// until the far kernel has acknowledged everything before it ends the test, and a receiving
// server reads on after the end until it has as much as the client says that it sent.
package peer

import (
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf3"
)

// ErrBusy reports that the server runs another client's test. A server that closed before its
// first message counts as busy too, because the reset of its socket can overtake what it wrote.
var ErrBusy = errors.New("the iperf3 server is busy")

// Timeouts of both ends.
const (
	// patience bounds each wait of a client for the server's next message; the server may have
	// other work. serverPatience bounds each wait of a server, as of real ones since 3.15: a
	// silent client can keep others out for that long. Opening all streams, one after the
	// other, may take a client openingTime.
	patience       = 30 * time.Second
	serverPatience = 10 * time.Second
	openingTime    = 30 * time.Second
	// drainLimit is how long a client waits for the acknowledgement of its last bytes, and
	// lateLimit how long a server reads on after the end.
	drainLimit = 10 * time.Second
	lateLimit  = time.Second
	// lateQuiet is how long a server that cannot know how much is missing waits for more.
	lateQuiet = 200 * time.Millisecond
	// readingTime is how long a client then waits before it ends the test: the far program must
	// still read what its kernel has acknowledged, and counts nothing after the end.
	readingTime = 50 * time.Millisecond
	// betweenTests is how long a client assumes that a busy server is only finishing another
	// test, and farewell how long it waits for the server to close after one.
	betweenTests = 2 * time.Second
	farewell     = time.Second
	// tick is the polling interval of the kernel's queues while only their state matters.
	tick = time.Millisecond
)

// version is linerate's client_version. Servers print it and ignore it otherwise.
const version = "linerate"

// seconds returns d in whole seconds, rounded up: the protocol has no others.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// directions returns the model's direction of a test and its parts, in the order in which their
// streams are opened.
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

// part returns the streams of all that sender writes to.
func part(all []iperf3.Stream, sender iperf3.Party) []iperf3.Stream {
	var some []iperf3.Stream
	for _, s := range all {
		if s.Sender == sender {
			some = append(some, s)
		}
	}
	return some
}

// perStream divides a rate in bit/s by the streams that share it. A rate of 0 stays unlimited,
// any other rate stays limited.
func perStream(rate units.BitRate, streams int) int64 {
	if rate <= 0 {
		return 0
	}
	return max(1, int64(float64(rate)/float64(max(streams, 1))))
}

// unexpected returns the error for a state that is invalid at this point.
func unexpected(got iperf3.State, want string) error {
	return fmt.Errorf("the peer said %v where %s was due", got, want)
}
