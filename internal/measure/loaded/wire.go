package loaded

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Sizes in bytes.
const (
	cookieSize = 8
	helloSize  = len(magic) + 1 + 1 + cookieSize
	probeSize  = cookieSize + 8 + 8 // of a datagram's payload
)

const (
	magic   = "lnld"
	version = 1
)

// Letters on the probes' TCP connection. Each except letterReady goes from the near end to the
// far end and back.
const (
	letterReady = 'r' // far end: it returns probes from now on
	letterProbe = 'p'
	letterLoad  = 'g' // the load begins
	letterEnd   = 'e' // all probes are sent
	letterYes   = 'y' // UDP is open
	letterNo    = 'n'
)

// hello is the first message of each end.
type hello struct {
	udp    bool             // the end has UDP
	cookie [cookieSize]byte // the near end's begins its datagrams
}

func newHello(udp bool) hello {
	h := hello{udp: udp}
	// Read of crypto/rand never fails.
	_, _ = rand.Read(h.cookie[:])
	return h
}

// encode returns the hello's bytes.
func (h hello) encode() []byte {
	b := append(make([]byte, 0, helloSize), magic...)
	flags := byte(0)
	if h.udp {
		flags = 1
	}
	b = append(b, version, flags)
	return append(b, h.cookie[:]...)
}

// parseHello parses the helloSize bytes of b.
func parseHello(b []byte) (hello, error) {
	var h hello
	if len(b) != helloSize || string(b[:len(magic)]) != magic {
		return h, errors.New("it does not greet as linerate does")
	}
	b = b[len(magic):]
	if b[0] != version {
		return h, fmt.Errorf("it speaks version %d of the protocol, this is %d", b[0], version)
	}
	if b[1] > 1 {
		return h, fmt.Errorf("it greets with unknown flags %#x", b[1])
	}
	h.udp = b[1] == 1
	copy(h.cookie[:], b[2:])
	return h, nil
}

// datagram writes probe number seq into b, which is probeSize long and ends in zeros.
func datagram(b []byte, cookie [cookieSize]byte, seq uint64) {
	copy(b, cookie[:])
	binary.BigEndian.PutUint64(b[cookieSize:], seq)
}

// parseDatagram returns the number of the probe b, how many bits of load the end that returned
// it has received, and whether b is a probe.
func parseDatagram(b []byte, cookie [cookieSize]byte) (seq, arrived uint64, ok bool) {
	if len(b) != probeSize || !bytes.Equal(b[:cookieSize], cookie[:]) {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(b[cookieSize:]), binary.BigEndian.Uint64(b[cookieSize+8:]), true
}

// exchange sends b and reads the peer's bytes into in, within the grace and ctx.
func (t *test) exchange(ctx context.Context, b, in []byte) error {
	if err := t.tcp.SetDeadline(time.Now().Add(t.engine.grace)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = t.tcp.SetDeadline(past) })()
	if _, err := t.tcp.Write(b); err != nil {
		return orCause(ctx, err)
	}
	if _, err := io.ReadFull(t.tcp, in); err != nil {
		return orCause(ctx, err)
	}
	return t.tcp.SetDeadline(time.Time{})
}

// orCause returns the cause of ctx if ctx has ended, else err.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// greet exchanges hellos.
func (t *test) greet(ctx context.Context, h hello) (hello, error) {
	var b [helloSize]byte
	if err := t.exchange(ctx, h.encode(), b[:]); err != nil {
		return hello{}, err
	}
	return parseHello(b[:])
}

// agree tells the peer whether UDP could be opened, and returns its answer.
func (t *test) agree(ctx context.Context, here bool) (there bool, err error) {
	says := []byte{letterNo}
	if here {
		says[0] = letterYes
	}
	var b [1]byte
	if err := t.exchange(ctx, says, b[:]); err != nil {
		return false, err
	}
	switch b[0] {
	case letterYes:
		return true, nil
	case letterNo:
		return false, nil
	}
	return false, fmt.Errorf("it says %q where yes or no was asked", b[0])
}
