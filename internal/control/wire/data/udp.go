package data

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// UDP sockets of a run are opened with the help of one of its TCP connections,
// the rendezvous (docs/wire/udp-sockets.md):
//
//	acceptor  -> connector  over TCP: its UDP port, 2 bytes, big-endian
//	connector -> acceptor   over UDP, from each socket, again and again:
//	                        magic "lr-udp-1", token, index (2 bytes), two zeros,
//	                        the connector's nonce for this destination
//	acceptor  -> connector  over UDP, from a socket connected to the sender, once
//	                        for each greeting: magic "lr-udp-2", index, two
//	                        zeros, the acceptor's nonce for this socket, tag
//	connector -> acceptor   over TCP, when every socket was answered: 0x06 and
//	                        the acceptor's nonces, in order
//	acceptor  -> connector  over TCP: 0x06 and the connector's nonces, in order;
//	                        or, at any time, 0x15 and where greetings came from
//
// The source of a datagram can be forged, so neither end trusts it: both accept greetings and
// answers only from the peer of the rendezvous, and send no load before a nonce that they sent
// to an address by UDP has come back over TCP. Until then an address receives no more than it
// has sent: an answer is as long as a greeting (RFC 9000 section 8 allows three times as much).
const (
	greeting   = "lr-udp-1"
	answering  = "lr-udp-2"
	nonceBytes = 16
	tagBytes   = sha256.Size

	greetingSize = len(greeting) + tokenBytes + 4 + nonceBytes
	answerSize   = len(answering) + 4 + nonceBytes + tagBytes

	refusing = 0x15 // over the rendezvous: NAK of ASCII
)

// MaxSockets is the most UDP sockets of one run.
const MaxSockets = MaxConns

// nonce is random, and known only to a receiver at the address that it was sent to.
type nonce [nonceBytes]byte

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

func (n nonce) equal(b []byte) bool { return subtle.ConstantTimeCompare(n[:], b) == 1 }

func greet(token Token, index int, n nonce) []byte {
	b := append([]byte(greeting), token[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(index))
	return append(append(b, 0, 0), n[:]...)
}

// readGreeting parses a greeting. The token is part of b.
func readGreeting(b []byte) (token []byte, index int, n nonce, ok bool) {
	if len(b) != greetingSize || string(b[:len(greeting)]) != greeting {
		return nil, 0, n, false
	}
	token, b = b[len(greeting):][:tokenBytes], b[len(greeting)+tokenBytes:]
	copy(n[:], b[4:])
	return token, int(binary.BigEndian.Uint16(b)), n, b[2] == 0 && b[3] == 0
}

// answer returns the answer to the greeting of socket index with nonce theirs. Its tag is an
// HMAC-SHA256 under the token (RFC 2104), so that only the run's peer can answer.
func answer(token Token, index int, theirs, mine nonce) []byte {
	b := binary.BigEndian.AppendUint16([]byte(answering), uint16(index))
	b = append(append(b, 0, 0), mine[:]...)
	h := hmac.New(sha256.New, token[:])
	_, _ = h.Write(b) // never fails
	_, _ = h.Write(theirs[:])
	return h.Sum(b)
}

// readAnswer returns the nonce in an answer to the greeting of socket index with nonce mine.
func readAnswer(b []byte, token Token, index int, mine nonce) (theirs nonce, ok bool) {
	if len(b) != answerSize {
		return theirs, false
	}
	copy(theirs[:], b[len(answering)+4:])
	return theirs, hmac.Equal(b, answer(token, index, mine, theirs))
}

// agreed returns the message that an end sends over the rendezvous when all its sockets are
// ready.
func agreed(all []nonce) []byte {
	b := []byte{accepted}
	for _, n := range all {
		b = append(b, n[:]...)
	}
	return b
}

// errUnproven reports that a peer wants load for an address at which it does not receive.
var errUnproven = errors.New("the other end does not know what was sent to its UDP sockets: it is not there that it receives")

// prove compares the bytes after 0x06 with the nonces that were sent by UDP.
func prove(said []byte, sent []nonce) error {
	ok := len(said) == nonceBytes*len(sent)
	for i, n := range sent {
		ok = ok && n.equal(said[i*nonceBytes:][:nonceBytes])
	}
	if !ok {
		return errUnproven
	}
	return nil
}

// refusal returns an acceptor's message if greetings come from another address than the
// rendezvous: 0x15, a length and that address as text.
func refusal(a netip.Addr) []byte {
	text := a.String()
	return append([]byte{refusing, byte(len(text))}, text...)
}

// hear reads what the other end of a rendezvous sends about n sockets.
func hear(rendezvous io.Reader, n int) ([]byte, error) {
	var word [1]byte
	if _, err := io.ReadFull(rendezvous, word[:]); err != nil {
		return nil, said(err)
	}
	switch word[0] {
	case accepted:
		b := make([]byte, n*nonceBytes)
		if _, err := io.ReadFull(rendezvous, b); err != nil {
			return nil, said(err)
		}
		return b, nil
	case refusing:
		return nil, hearRefusal(rendezvous)
	}
	return nil, fmt.Errorf("the other end said 0x%02x about its UDP sockets", word[0])
}

func hearRefusal(rendezvous io.Reader) error {
	var length [1]byte
	if _, err := io.ReadFull(rendezvous, length[:]); err != nil {
		return said(err)
	}
	text := make([]byte, length[0])
	if _, err := io.ReadFull(rendezvous, text); err != nil {
		return said(err)
	}
	a, err := netip.ParseAddr(string(text))
	if err != nil {
		return errors.New("the other end refuses the address that the UDP sockets have there")
	}
	return otherAddress(a)
}

// otherAddress returns the error if UDP comes from a and TCP from another address.
func otherAddress(a netip.Addr) error {
	return fmt.Errorf("UDP comes from %v and TCP from another address: an address translator on the way that does so is not supported", a)
}

// said explains the end of a rendezvous.
func said(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the other end gave them up")
	}
	return err
}

// host returns the IP address of an end of a rendezvous.
func host(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap()
}

// sameHost reports whether a datagram from a comes from host b. Zones are compared only if both
// have one.
func sameHost(a, b netip.Addr) bool {
	a, b = a.Unmap(), b.Unmap()
	if a.Zone() == "" || b.Zone() == "" {
		a, b = a.WithZone(""), b.WithZone("")
	}
	return b.IsValid() && a == b
}

// udpNetwork returns the network name for sockets of a's address family.
func udpNetwork(a netip.Addr) string {
	if a.Is4() {
		return "udp4"
	}
	return "udp6"
}

func closeUDP(conns []*net.UDPConn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}
