package plane

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/measure/goruntime"
	"linerate/internal/must"
)

// kinds returns all ways to wait that this system has, by name.
func kinds() map[string]func(*net.TCPConn) (*Link, error) {
	return map[string]func(*net.TCPConn) (*Link, error){
		"blocking": func(c *net.TCPConn) (*Link, error) { return New(c, false) },
		"polling":  func(c *net.TCPConn) (*Link, error) { return New(c, true) },
		"poller":   func(c *net.TCPConn) (*Link, error) { return NewPoller(c), nil },
	}
}

// everyKind runs f with a new pair of links of each kind.
func everyKind(t *testing.T, f func(t *testing.T, a, b *Link)) {
	defer goruntime.Begin(2).End()
	for name, open := range kinds() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, open)
			f(t, a, b)
		})
	}
}

// pair returns the two ends of a connection over loopback with small buffers.
func pair(t *testing.T, open func(*net.TCPConn) (*Link, error)) (a, b *Link) {
	t.Helper()
	l := must.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer l.Close()
	dialed := must.Get(net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr)))(t)
	accepted := must.Get(l.AcceptTCP())(t)
	links := []*Link{}
	for _, c := range []*net.TCPConn{dialed, accepted} {
		must.Do(t, errors.Join(c.SetReadBuffer(16<<10), c.SetWriteBuffer(16<<10)))
		l := must.Get(open(c))(t)
		t.Cleanup(func() { must.OK(t, l.Close(), "close") })
		links = append(links, l)
	}
	return links[0], links[1]
}

// beside runs f in a goroutine and returns a channel for its error.
func beside(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		c <- f()
	}()
	return c
}

func random(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // never fails
	return b
}

func TestMessagesArriveWhole(t *testing.T) {
	everyKind(t, func(t *testing.T, a, b *Link) {
		for _, n := range []int{1, 2, 1448, 1 << 20} {
			want := random(n, byte(n))
			sent := beside(func() error { return a.Send(want) })
			got := make([]byte, n)
			must.Do(t, b.Receive(got))
			err := must.Wait(t, "the end", sent)
			must.Need(t, err == nil && bytes.Equal(got, want), "%d bytes: error %v, equal %t", n, err, bytes.Equal(got, want))
		}
	})
}

// TestExchangeNeverDeadlocks sends far more than the buffers hold, both ways.
func TestExchangeNeverDeadlocks(t *testing.T) {
	everyKind(t, func(t *testing.T, a, b *Link) {
		for _, n := range []int{1, 100, 4 << 20} {
			left, right := random(n, 1), random(n, 2)
			atA, atB := make([]byte, n), make([]byte, n)
			other := beside(func() error { return b.Exchange(right, atB) })
			must.Do(t, must.Wait(t, "the end", beside(func() error { return a.Exchange(left, atA) })))
			err := must.Wait(t, "the end", other)
			must.Need(t, err == nil && bytes.Equal(atA, right) && bytes.Equal(atB, left), "%d bytes: error %v, equal %t %t", n, err, bytes.Equal(atA, right), bytes.Equal(atB, left))
		}
		got, want := a.Received(), int64(1+100+(4<<20))
		must.True(t, got == want, "%d bytes received, want %d", got, want)
	})
}

// TestExchangeOfAnySizes lets the two ends send different amounts that both know.
func TestExchangeOfAnySizes(t *testing.T) {
	everyKind(t, func(t *testing.T, a, b *Link) {
		rapid.Check(t, func(rt *rapid.T) {
			size := rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 64<<10))
			left, right := random(size.Draw(rt, "there"), 3), random(size.Draw(rt, "back"), 4)
			atA, atB := make([]byte, len(right)), make([]byte, len(left))
			other := beside(func() error { return b.Exchange(right, atB) })
			must.Do(rt, must.Wait(t, "the end", beside(func() error { return a.Exchange(left, atA) })))
			err := must.Wait(t, "the end", other)
			must.Need(rt, err == nil && bytes.Equal(atA, right) && bytes.Equal(atB, left), "error %v", err)
		})
	})
}

func TestEnds(t *testing.T) {
	everyKind(t, func(t *testing.T, a, b *Link) {
		must.Do(t, a.Send([]byte("ab")))
		must.Do(t, b.Receive(make([]byte, 1)))
		a.Interrupt() // on Linux this ends the connection; elsewhere Close does
		if p, ok := a.wire.(*poller); ok {
			must.Do(t, p.conn.CloseWrite())
		}
		must.Is(t, b.Receive(make([]byte, 2)), io.ErrUnexpectedEOF, "in the middle of a message")
		must.Is(t, b.Receive(make([]byte, 2)), io.EOF, "between messages")
		must.Fail(t, b.Exchange([]byte("x"), make([]byte, 2)), "exchange with an ended connection")
	})
}

// blocking are calls that last until the other end acts.
var blocking = map[string]func(l *Link) error{
	"receive":  func(l *Link) error { return l.Receive(make([]byte, 1)) },
	"send":     func(l *Link) error { return l.Send(make([]byte, 16<<20)) },
	"exchange": func(l *Link) error { return l.Exchange(make([]byte, 16<<20), make([]byte, 1)) },
}

func TestBoundWithoutProgress(t *testing.T) {
	for what, call := range blocking {
		t.Run(what, func(t *testing.T) {
			everyKind(t, func(t *testing.T, a, _ *Link) {
				a.Limit(50*time.Millisecond, time.Hour)
				must.Is(t, must.Wait(t, "the end", beside(func() error { return call(a) })), ErrStalled, "error")
			})
		})
	}
}

// TestBoundInAll makes progress all the time.
func TestBoundInAll(t *testing.T) {
	everyKind(t, func(t *testing.T, a, b *Link) {
		a.Limit(time.Hour, 250*time.Millisecond)
		stop := make(chan struct{})
		drip := make(chan struct{})
		go func() {
			defer close(drip)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if b.Send([]byte{0}) != nil {
						return
					}
				}
			}
		}()
		err := must.Wait(t, "the end", beside(func() error { return a.Receive(make([]byte, 1<<20)) }))
		close(stop)
		<-drip
		must.Is(t, err, ErrStalled, "error")
	})
}

func TestInterrupt(t *testing.T) {
	for what, call := range blocking {
		t.Run(what, func(t *testing.T) {
			everyKind(t, func(t *testing.T, a, _ *Link) {
				c := beside(func() error { return call(a) })
				a.Interrupt()
				must.Is(t, must.Wait(t, "the end", c), ErrInterrupted, "error")
				must.Is(t, must.Wait(t, "the end", beside(func() error { return call(a) })), ErrInterrupted, "a later call: error")
			})
		})
	}
}

// TestAbort: the peer notices even if it has not read what was sent before.
func TestAbort(t *testing.T) {
	for name, open := range kinds() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, open)
			a.Limit(50*time.Millisecond, time.Hour)
			hold := goruntime.Begin(2)
			defer hold.End()
			err := must.Wait(t, "the end", beside(func() error { return a.Send(make([]byte, 16<<20)) }))
			must.Need(t, errors.Is(err, ErrStalled), "send: %v", err)
			must.OK(t, a.Abort())
			must.Is(t, must.Wait(t, "the end", beside(func() error { return b.Receive(make([]byte, 32<<20)) })), syscall.ECONNRESET, "receive")
			a.wire = closed{}
		})
	}
}

// closed stands in for the wire of a link that is closed.
type closed struct{ wire }

func (closed) close() error { return nil }
