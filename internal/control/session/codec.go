package session

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"linerate/internal/core/units"
)

// How many parts, messages, texts and elements of lists, one message may have. Two bytes
// on the wire can be a part that takes partBytes in memory: a response of a megabyte would
// become a hundred. The largest response that an honest peer sends, the facts of 64
// interfaces, has a quarter of its limit; the largest request, 256 assignments with
// commands, has half of its limit.
const (
	maxResponseParts = 1 << 16
	maxRequestParts  = 8 << 10
	// partBytes is the most memory that one part takes, garbage included.
	partBytes units.Bytes = 160
)

// maxNesting is how deep messages lie in messages; those of session.proto do so
// five times.
const maxNesting = 12

// frugal is connect's codec for Protocol Buffers at a controller. It counts the parts of
// a response before it makes any.
type frugal struct{}

// Name is the codec's name in the media type of calls.
func (frugal) Name() string { return "proto" }

// Marshal makes bytes of a message.
func (frugal) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return proto.Marshal(m)
}

// Unmarshal makes a message of bytes. It wraps ErrInvalid.
func (frugal) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	if _, err := parts(b, m.ProtoReflect().Descriptor(), maxResponseParts); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

// counted is the codec at an agent, whose intake has counted the parts.
type counted struct {
	frugal
	in *intake
}

// Unmarshal makes a message of bytes, and ends the turn of its request.
func (c counted) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok || c.in.now == nil {
		return fmt.Errorf("%T is no message of this turn", v)
	}
	defer c.in.now.leave()
	return proto.Unmarshal(b, m)
}

// parts returns how many parts a message on the wire has. It wraps ErrInvalid where
// these are more than limit, or lie too deep.
func parts(b []byte, d protoreflect.MessageDescriptor, limit int) (int, error) {
	n := 0
	err := walk(b, d, maxNesting, func() error {
		if n++; n > limit {
			return fmt.Errorf("%w: a message has more than %d parts", ErrInvalid, limit)
		}
		return nil
	})
	return n, err
}

// walk calls part for each field of a message on the wire, and of the messages in it.
func walk(b []byte, d protoreflect.MessageDescriptor, nesting int, part func() error) error {
	if nesting == 0 {
		return fmt.Errorf("%w: messages lie too deep in messages", ErrInvalid)
	}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrInvalid, protowire.ParseError(n))
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return fmt.Errorf("%w: %w", ErrInvalid, protowire.ParseError(size))
		}
		if err := part(); err != nil {
			return err
		}
		f := d.Fields().ByNumber(number)
		if f != nil && f.Message() != nil && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(b)
			if err := walk(inner, f.Message(), nesting-1, part); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

var _ connect.Codec = counted{}
