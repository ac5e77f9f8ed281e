package fleet

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"

	"linerate/internal/core/fleet"
	"linerate/internal/core/units"
)

// A ticket lets one host measure with another one in one window. The hub signs it, the near host
// presents it as the secret of a session, and the far host checks it without the hub. All numbers
// are big-endian:
//
//	version 1, kind 1, lease 8, near 4, far 4, from 4, seconds 2, rate in Mbit/s 4, signature 64
//
// The signature is ECDSA P-256 over the SHA-256 of ticketContext and the bytes before it, by the
// key whose pin is in the join link: r and s, 32 bytes each.
const (
	ticketVersion = 1
	ticketBody    = 28
	half          = 32
	ticketBytes   = ticketBody + 2*half
	ticketContext = "linerate fleet ticket\x00"
)

// Ticket is the content of a ticket.
type Ticket struct {
	Lease     int64
	Near, Far int64
	fleet.Span
	Confirm bool
	Rate    units.BitRate // of TCP, each way; 0 is no limit
}

// ErrTicket reports that a text is no ticket of this hub.
var ErrTicket = errors.New("not a ticket of this hub")

// ErrEarly reports what may be a ticket to a host that does not know the key of its hub yet.
var ErrEarly = errors.New("the key of the hub is not known yet")

const mbit = 1e6

func (t Ticket) digest() (body []byte, sum [sha256.Size]byte) {
	kind := byte(0)
	if t.Confirm {
		kind = 1
	}
	body = append(body, ticketVersion, kind)
	body = binary.BigEndian.AppendUint64(body, uint64(t.Lease))
	body = binary.BigEndian.AppendUint32(body, uint32(t.Near))
	body = binary.BigEndian.AppendUint32(body, uint32(t.Far))
	body = binary.BigEndian.AppendUint32(body, uint32(t.From))
	body = binary.BigEndian.AppendUint16(body, uint16(t.Until-t.From))
	body = binary.BigEndian.AppendUint32(body, uint32((t.Rate+mbit-1)/mbit))
	return body, sha256.Sum256(append([]byte(ticketContext), body...))
}

// Sign returns the ticket as bytes.
func (t Ticket) Sign(key *ecdsa.PrivateKey) ([]byte, error) {
	body, sum := t.digest()
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign a ticket: %w", err)
	}
	out := append(body, make([]byte, 2*half)...)
	r.FillBytes(out[ticketBody : ticketBody+half])
	s.FillBytes(out[ticketBody+half:])
	return out, nil
}

// ReadTicket returns the content of a ticket that key signed, or ErrTicket; without a key ErrEarly.
func ReadTicket(b []byte, key *ecdsa.PublicKey) (Ticket, error) {
	if len(b) != ticketBytes || b[0] != ticketVersion || b[1] > 1 {
		return Ticket{}, ErrTicket
	}
	if key == nil {
		return Ticket{}, ErrEarly
	}
	number := binary.BigEndian.Uint32
	t := Ticket{Lease: int64(binary.BigEndian.Uint64(b[2:])), Near: int64(number(b[10:])), Far: int64(number(b[14:])), Confirm: b[1] == 1, Rate: units.BitRate(number(b[24:])) * mbit}
	t.From = int64(number(b[18:]))
	t.Until = t.From + int64(binary.BigEndian.Uint16(b[22:]))
	_, sum := t.digest()
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(b[ticketBody:ticketBody+half]), new(big.Int).SetBytes(b[ticketBody+half:])) {
		return Ticket{}, ErrTicket
	}
	return t, nil
}
