package session

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxParts is how many parts, messages, texts and elements of lists, one message
// may have. Two bytes on the wire can be a part that takes a hundred in memory: a
// message of a megabyte would become a hundred. The largest that an honest peer
// sends, the facts of 64 interfaces, has a quarter of it.
const maxParts = 1 << 16

// maxNesting is how deep messages lie in messages; those of session.proto do so
// five times.
const maxNesting = 12

// frugal is connect's codec for Protocol Buffers, but it looks at the number of
// parts before it makes any.
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
	left := maxParts
	if err := parts(b, m.ProtoReflect().Descriptor(), &left, maxNesting); err != nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

// parts walks the fields of a message on the wire and takes its parts off left.
func parts(b []byte, d protoreflect.MessageDescriptor, left *int, nesting int) error {
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
		if *left--; *left < 0 {
			return fmt.Errorf("%w: a message has more than %d parts", ErrInvalid, maxParts)
		}
		f := d.Fields().ByNumber(number)
		if f != nil && f.Message() != nil && kind == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(b)
			if err := parts(inner, f.Message(), left, nesting-1); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

var _ connect.Codec = frugal{}
