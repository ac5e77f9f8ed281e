package pingpong

import (
	"encoding/binary"
	"errors"
	"fmt"

	"linerate/internal/core/traffic/sizes"
)

// frameBytes is the size of every frame (docs/wire/pingpong.md, "Frame").
const frameBytes = 32

const (
	magic   = "lrpp"
	version = 1
)

// Bounds of a frame's fields.
const (
	maxSize   = 1 << 30
	maxRounds = 1 << 20
)

// kind is the meaning of a frame.
type kind byte

const (
	batch kind = iota + 1
	ready
	done
	renew
	end
)

func (k kind) String() string {
	names := [...]string{"", "batch", "ready", "done", "renew", "end"}
	if int(k) < len(names) && k > 0 {
		return names[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// mode is a mode of the sweep in wire format.
type mode byte

const (
	turns  mode = iota + 1 // one message in flight
	both                   // both ends send at once
	stream                 // one message after the other
)

// modeOf returns the wire's mode for that of a flow, false if there is none.
func modeOf(name string) (mode, bool) {
	switch name {
	case "", sizes.PingPong:
		return turns, true
	case sizes.Both:
		return both, true
	case sizes.Stream:
		return stream, true
	}
	return 0, false
}

// frame is everything on the wire except payload. Fields that do not belong to its kind are 0.
type frame struct {
	kind    kind
	mode    mode
	size    int
	rounds  int
	elapsed int64 // ns
}

// errFrame reports that the peer sent an invalid frame.
var errFrame = errors.New("frame")

// append appends f, which is valid, to dst.
func (f frame) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, version, byte(f.kind), byte(f.mode), 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.size))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.rounds))
	return binary.BigEndian.AppendUint64(dst, uint64(f.elapsed))
}

// decode parses the frame in b, which has frameBytes bytes. The error wraps errFrame.
func decode(b []byte) (frame, error) {
	if len(b) != frameBytes || string(b[:4]) != magic || b[7] != 0 {
		return frame{}, fmt.Errorf("%w: the peer is out of step, or no linerate", errFrame)
	}
	if b[4] != version {
		return frame{}, fmt.Errorf("%w: version %d, this is version %d", errFrame, b[4], version)
	}
	size, rounds, elapsed := binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])
	if size > maxSize || rounds > maxRounds || elapsed >= 1<<63 {
		return frame{}, fmt.Errorf("%w: size %d, rounds %d or time %d out of range", errFrame, size, rounds, elapsed)
	}
	f := frame{kind: kind(b[5]), mode: mode(b[6]), size: int(size), rounds: int(rounds), elapsed: int64(elapsed)}
	if !f.valid() {
		return frame{}, fmt.Errorf("%w: %s with mode %d, size %d, rounds %d and time %d", errFrame, f.kind, f.mode, f.size, f.rounds, f.elapsed)
	}
	return f, nil
}

// valid reports whether f has exactly the fields of its kind.
func (f frame) valid() bool {
	switch f.kind {
	case batch, ready, done:
		if (f.elapsed > 0) != (f.kind == done) || f.kind == done && f.mode != stream {
			return false
		}
		return f.mode >= turns && f.mode <= stream && f.size >= 1 && f.rounds >= leastRounds(f.mode)
	case renew, end:
		return f == frame{kind: f.kind}
	}
	return false
}

// leastRounds returns the minimum of rounds in a batch: if both ends send, and in a stream, the
// time counts from the end of the first one.
func leastRounds(m mode) int {
	if m == turns {
		return 1
	}
	return 2
}
