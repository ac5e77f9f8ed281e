package iperf3

// Direction is which end sends data, seen from the client (section 6).
type Direction int

// The directions. In each of them the client opens every connection.
const (
	Forward       Direction = iota // the client sends
	Reverse                        // the server sends
	Bidirectional                  // both send, each on streams of its own; since 3.7
)

// String returns "forward", "reverse" or "bidirectional".
func (d Direction) String() string {
	switch d {
	case Reverse:
		return "reverse"
	case Bidirectional:
		return "bidirectional"
	default:
		return "forward"
	}
}

// Stream is one data connection of a test.
type Stream struct {
	ID     int   // as in the results: 1, 3, 4, 5, ...
	Sender Party // the party that sends on it
}

// StreamID returns the id of the stream that is opened as number index, counted from 0. The ids
// are 1, 3, 4, 5, ...: all versions keep an old bug that skips 2 (section 6).
func StreamID(index int) int {
	if index <= 0 {
		return 1
	}
	return index + 2
}

// Streams returns the streams of a test in the order in which the client must open them, one
// after the other: the server knows who sends on which only from that order (section 6). A
// parallel below 1 gives none; one above MaxParallel gives MaxParallel.
func Streams(d Direction, parallel int) []Stream {
	senders := []Party{Client}
	switch d {
	case Reverse:
		senders[0] = Server
	case Bidirectional:
		senders = append(senders, Server)
	case Forward:
	}
	var all []Stream
	for _, s := range senders {
		for range min(parallel, MaxParallel) {
			all = append(all, Stream{ID: StreamID(len(all)), Sender: s})
		}
	}
	return all
}
