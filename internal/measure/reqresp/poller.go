package reqresp

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// poller is the portable plane: a goroutine per stream, and the Go runtime
// waits for all.
type poller struct{}

func (poller) waiting() string { return "poller" }

// threads is none: a goroutine that waits gives its processor away.
func (poller) threads(int) int { return 0 }

func (poller) attach(c *net.TCPConn, stop *atomic.Bool) (line, error) {
	return connLine{c, stop}, nil
}

func (poller) work(f func()) { f() }

func (poller) nap(d time.Duration) { nap(d) }

// margin is none: watching the clock would take the processor from others.
func (poller) margin() time.Duration { return 0 }

// connLine is a connection that the Go runtime polls.
type connLine struct {
	conn *net.TCPConn
	stop *atomic.Bool
}

func (l connLine) send(b []byte) error {
	_, err := l.conn.Write(b)
	return l.said(err)
}

func (l connLine) receive(b []byte) error {
	_, err := io.ReadFull(l.conn, b)
	return l.said(err)
}

// said returns err, or errStopped for the error of an interrupted call.
func (l connLine) said(err error) error {
	if err != nil && l.stop.Load() {
		return errStopped
	}
	return err
}

func (l connLine) interrupt() {
	// It fails only on a closed connection, which nobody waits for.
	_ = l.conn.SetDeadline(time.Unix(1, 0))
}

func (l connLine) close() error {
	if err := l.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
