package iperf3

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits of a JSON message in bytes (section 4). Servers since 3.18 refuse longer parameters.
// No version limits results: that limit is ours, wide enough for the text report of a long
// test.
const (
	MaxParams  = 8192
	MaxResults = 8 << 20
)

// ErrTooLong reports that a message exceeds its limit.
var ErrTooLong = errors.New("message is longer than its limit")

// frameStep is the most that a reader allocates for an announced length before the bytes have
// arrived, so that a false length costs no memory.
const frameStep = 64 << 10

// ReadFrame reads exactly one message: a 32-bit big-endian length and that many bytes (section
// 4). The error wraps ErrTooLong, with only the length read, if the length exceeds limit, and
// io.ErrUnexpectedEOF if the message is cut off. It never holds more than twice what has
// arrived plus 64 KiB.
func ReadFrame(r io.Reader, limit int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("read message length: %w", err)
	}
	announced := binary.BigEndian.Uint32(head[:])
	if uint64(announced) > uint64(max(limit, 0)) {
		return nil, fmt.Errorf("read message of %d bytes, limit %d: %w", announced, limit, ErrTooLong)
	}
	length := int(announced)
	body := make([]byte, 0, min(length, frameStep))
	for len(body) < length {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(length, 2*cap(body)))
			copy(grown, body)
			body = grown
		}
		next := body[len(body):cap(body)]
		n, err := io.ReadFull(r, next)
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("read message, %d of %d bytes: %w", len(body), length, err)
		}
	}
	return body, nil
}

// AppendFrame appends body as one message to dst. The error wraps ErrTooLong if the body does
// not fit a 32-bit length.
func AppendFrame(dst, body []byte) ([]byte, error) {
	if uint64(len(body)) > math.MaxUint32 {
		return dst, fmt.Errorf("frame message of %d bytes: %w", len(body), ErrTooLong)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...), nil
}
