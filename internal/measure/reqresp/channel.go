package reqresp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// channel is the control connection of one direction (docs/wire/reqresp.md).
type channel struct {
	conn *net.TCPConn
}

// Sizes of the channel's messages, in bytes.
const (
	cookieSize = 16
	helloSize  = len(magic) + 1 + 2 + cookieSize
	markSize   = 1 + 8
)

// magic and version begin a hello.
const (
	magic   = "lnrq"
	version = 1
)

// hello is the answering end's first message.
type hello struct {
	port   uint16           // for fresh connections; 0 if there are none
	cookie [cookieSize]byte // begins each of them
}

// encode returns the hello's bytes.
func (h hello) encode() []byte {
	b := append(make([]byte, 0, helloSize), magic...)
	b = append(b, version)
	b = binary.BigEndian.AppendUint16(b, h.port)
	return append(b, h.cookie[:]...)
}

// parseHello parses the helloSize bytes of b.
func parseHello(b []byte) (hello, error) {
	var h hello
	if len(b) != helloSize || string(b[:len(magic)]) != magic {
		return h, errors.New("the answering end does not greet as linerate does")
	}
	b = b[len(magic):]
	if b[0] != version {
		return h, fmt.Errorf("the answering end speaks version %d of the protocol, this is %d", b[0], version)
	}
	h.port = binary.BigEndian.Uint16(b[1:])
	copy(h.cookie[:], b[3:])
	return h, nil
}

// kind is the meaning of a mark.
type kind byte

// The marks.
const (
	markReady kind = 'R' // answering end: it is ready
	markOpen  kind = 'O' // asking end: the window has opened
	markClose kind = 'C' // asking end: no more requests; carries the window's length
)

// mark is a message between the ends during the run.
type mark struct {
	kind   kind
	window time.Duration // of markClose, else 0
}

// encode returns the mark's bytes.
func (m mark) encode() []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(m.kind)}, uint64(m.window))
}

// parseMark parses the markSize bytes of b. A window is at most longest.
func parseMark(b []byte, longest time.Duration) (mark, error) {
	if len(b) != markSize {
		return mark{}, fmt.Errorf("mark of %d bytes", len(b))
	}
	m := mark{kind: kind(b[0])}
	n := binary.BigEndian.Uint64(b[1:])
	switch m.kind {
	case markReady, markOpen:
		if n != 0 {
			return mark{}, fmt.Errorf("mark %q with a window", b[0])
		}
	case markClose:
		if n > uint64(longest) {
			return mark{}, fmt.Errorf("a window of %d ns, at most %v was planned", n, longest)
		}
		m.window = time.Duration(n)
	default:
		return mark{}, fmt.Errorf("unknown mark %q", b[0])
	}
	return m, nil
}

// bounded runs f, whose calls on the channel end after limit or with ctx.
func (c *channel) bounded(ctx context.Context, limit time.Duration, f func() error) error {
	if err := c.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, c.interrupt)()
	err := f()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(err, c.conn.SetDeadline(time.Time{}))
}

// readMark waits for the peer's next mark. The error is io.EOF if the peer closed.
func (c *channel) readMark(longest time.Duration) (mark, error) {
	var b [markSize]byte
	if _, err := io.ReadFull(c.conn, b[:]); err != nil {
		return mark{}, err
	}
	return parseMark(b[:], longest)
}

// writePatience is the timeout of sending a few bytes on an otherwise idle connection: only a
// peer that is gone does not accept them.
const writePatience = time.Second

func (c *channel) write(m mark) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return err
	}
	_, err := c.conn.Write(m.encode())
	return err
}

// interrupt wakes readers and writers.
func (c *channel) interrupt() {
	// It fails only on a closed connection, on which nothing waits.
	_ = c.conn.SetDeadline(time.Unix(1, 0))
}

func (c *channel) close() error {
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
