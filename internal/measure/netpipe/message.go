package netpipe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
)

// Control is a message that synchronises the two ends.
type Control int

// The control messages ("Messages").
const (
	// Sync is sent by both ends, each before it reads the other's.
	Sync Control = iota + 1
	// Quit ends a connection; the transmitter sends it, and the receiver answers
	// with QuitAnswerBytes bytes before both close.
	Quit
)

// Sizes of the messages in bytes.
const (
	SyncBytes       = 6
	QuitBytes       = 5
	QuitAnswerBytes = 5 // any content; NPtcp ignores it
	NumberBytes     = 4 // repeat count and time
)

// String returns "sync" or "quit".
func (c Control) String() string {
	switch c {
	case Sync:
		return "sync"
	case Quit:
		return "quit"
	default:
		return fmt.Sprintf("control message %d", int(c))
	}
}

// text returns the bytes of c on the wire. Only Quit has its final NUL.
func (c Control) text() string {
	switch c {
	case Sync:
		return "SyncMe"
	case Quit:
		return "QUIT\x00"
	default:
		panic("netpipe: no such control message")
	}
}

// Append appends the bytes of c, Sync or Quit, to dst.
func (c Control) Append(dst []byte) []byte { return append(dst, c.text()...) }

// ErrShort reports an incomplete message. It wraps io.ErrUnexpectedEOF.
var ErrShort = fmt.Errorf("netpipe message is not complete: %w", io.ErrUnexpectedEOF)

// OutOfStepError reports bytes that are no control message where one is due: the ends have
// different settings, or the peer is not NetPIPE.
type OutOfStepError struct {
	Got []byte // the first bytes, at most SyncBytes
}

// Error names the bytes and what both ends must share.
func (e *OutOfStepError) Error() string {
	hint := "is the peer NPtcp 3.x?"
	if strings.Trim(string(e.Got), "ab") == "" {
		hint = "this is payload, so -l, -u, -p, -s, -r, -2 or -i differ between the ends"
	}
	return fmt.Sprintf("got %q where sync or quit should be: %s", e.Got, hint)
}

// DecodeControl parses the control message at the start of b and returns its length. It leaves
// what follows: a sync and a quit can share a segment.
//
// It returns ErrShort while b is only the beginning of a message, and *OutOfStepError at the
// first byte that fits none. A quit where the caller expects a sync means that the peer ended
// its schedule first.
func DecodeControl(b []byte) (Control, int, error) {
	head := string(b[:min(len(b), SyncBytes)])
	for _, c := range []Control{Sync, Quit} {
		text := c.text()
		if strings.HasPrefix(head, text) {
			return c, len(text), nil
		}
		if strings.HasPrefix(text, head) {
			return 0, 0, ErrShort
		}
	}
	return 0, 0, &OutOfStepError{Got: []byte(head)}
}

// AppendRepeats appends a repeat count, which the transmitter sends to the receiver before each
// point, to dst. n must be between 1 and MaxRepeats.
func AppendRepeats(dst []byte, n int) ([]byte, error) {
	if n < 1 || n > MaxRepeats {
		return dst, fmt.Errorf("repeat count %d is not between 1 and %d", n, MaxRepeats)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n)), nil
}

// DecodeRepeats parses the repeat count at the start of b. It returns ErrShort below
// NumberBytes, and an error for a count that AppendRepeats would refuse.
func DecodeRepeats(b []byte) (int, error) {
	if len(b) < NumberBytes {
		return 0, ErrShort
	}
	n := binary.BigEndian.Uint32(b)
	if n < 1 || n > MaxRepeats {
		return 0, fmt.Errorf("repeat count %d is not between 1 and %d: do -l, -u and -p agree?", n, MaxRepeats)
	}
	return int(n), nil
}

// timeUnits is the number of time units per second on the wire.
const timeUnits = 1e8

// AppendTime appends a receiver's one-way time, which it sends after each point of a stream, to
// dst, truncated to 10 ns. seconds must be between 0 and what 32 bits hold, 42.9 s.
func AppendTime(dst []byte, seconds float64) ([]byte, error) {
	units := seconds * timeUnits
	if !(units >= 0 && units < math.MaxUint32+1) {
		return dst, fmt.Errorf("a time of %g s is not between 0 and %.1f s", seconds, math.MaxUint32/timeUnits)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(units)), nil
}

// DecodeTime parses the time at the start of b, in seconds. It returns ErrShort below
// NumberBytes. If a receiver measured more than 42.9 s its value has wrapped, which is not
// detectable here.
func DecodeTime(b []byte) (float64, error) {
	if len(b) < NumberBytes {
		return 0, ErrShort
	}
	return float64(binary.BigEndian.Uint32(b)) / timeUnits, nil
}

// FillPayload fills b with the payload of every test but the integrity check. No end reads it,
// but it shows when two ends are out of step.
func FillPayload(b []byte) {
	for i := range b {
		b[i] = 'a'
	}
}

// FillIntegrity fills b with the payload of an integrity check: the int32 0, 1, 2, … in this
// machine's byte order. One to three bytes at the end stay unchanged.
func FillIntegrity(b []byte) {
	for i := range len(b) / 4 {
		binary.NativeEndian.PutUint32(b[4*i:], uint32(i))
	}
}

// CheckIntegrity compares b with the result of FillIntegrity. Its error names the first int32
// that differs, and says if only the byte order differs: NetPIPE does not convert it.
func CheckIntegrity(b []byte) error {
	for i := range len(b) / 4 {
		got, want := binary.NativeEndian.Uint32(b[4*i:]), uint32(i)
		if got == want {
			continue
		}
		if got == bits.ReverseBytes32(want) {
			return errors.New("check integrity: the other end has the other byte order, which NetPIPE does not convert")
		}
		return fmt.Errorf("check integrity: number %d is %d", i, int32(got))
	}
	return nil
}
