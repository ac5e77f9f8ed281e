package iperf2

import (
	"encoding/binary"
	"fmt"
)

// bounceLen is the length of a bounce-back header in bytes.
const bounceLen = 48

// DefaultBounceLen is the default length of a bounce-back message in bytes, header included
// (section 6).
const DefaultBounceLen = 100

// Bounce begins each message of a bounce-back test, both request and response; the server fills
// in its two times and returns the rest unchanged (section 6).
type Bounce struct {
	Size       uint32 // of the whole message, bytes
	ID         uint32
	Flags      uint16
	TOS        uint16
	RunTime    uint32 // units of 10 ms
	ClientSent Stamp
	ServerGot  Stamp
	ServerSent Stamp
	Hold       uint32 // how long the server holds the response
}

// Put writes the header to the start of b. It returns an error if b is shorter than 48 bytes.
func (m Bounce) Put(b []byte) error {
	if len(b) < bounceLen {
		return fmt.Errorf("write bounce-back header: %d bytes needed, %d there", bounceLen, len(b))
	}
	be := binary.BigEndian
	be.PutUint32(b, uint32(BounceBack))
	be.PutUint32(b[4:], m.Size)
	be.PutUint32(b[8:], m.ID)
	be.PutUint16(b[12:], m.Flags)
	be.PutUint16(b[14:], m.TOS)
	be.PutUint32(b[16:], m.RunTime)
	putStamp(b[20:], m.ClientSent)
	putStamp(b[28:], m.ServerGot)
	putStamp(b[36:], m.ServerSent)
	be.PutUint32(b[44:], m.Hold)
	return nil
}

// ParseBounce parses the header at the start of b. The error wraps ErrHeader if the first word
// is not BounceBack, b is too short, or its size is below that of a header. The size has no
// upper limit here: the caller must set one.
func ParseBounce(b []byte) (Bounce, error) {
	be := binary.BigEndian
	if len(b) < bounceLen || Flags(be.Uint32(b)) != BounceBack || be.Uint32(b[4:]) < bounceLen {
		return Bounce{}, fmt.Errorf("parse bounce-back header of %d bytes: %w", len(b), ErrHeader)
	}
	return Bounce{
		Size: be.Uint32(b[4:]), ID: be.Uint32(b[8:]), Flags: be.Uint16(b[12:]), TOS: be.Uint16(b[14:]),
		RunTime: be.Uint32(b[16:]), ClientSent: getStamp(b[20:]), ServerGot: getStamp(b[28:]),
		ServerSent: getStamp(b[36:]), Hold: be.Uint32(b[44:]),
	}, nil
}
