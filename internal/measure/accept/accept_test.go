package accept

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/must"
)

// line is a listener that returns what a test puts in.
type line struct {
	next   chan any // a net.Conn or an error
	closed chan struct{}
	once   sync.Once
}

func newLine() *line { return &line{next: make(chan any), closed: make(chan struct{})} }

func (l *line) Accept() (net.Conn, error) {
	select {
	case n := <-l.next:
		if err, ok := n.(error); ok {
			return nil, err
		}
		return n.(net.Conn), nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *line) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *line) Addr() net.Addr { return &net.TCPAddr{} }

// pipe is a connection with an address.
type pipe struct{ net.Conn }

func (pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// TestLoopOutlivesFailures lets Accept fail for minutes in every temporary way: Loop rests
// longer and longer, logs once, and then goes on.
func TestLoopOutlivesFailures(t *testing.T) {
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS, syscall.ENOMEM, errors.New("unknown")} {
		t.Run(errno.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				l := newLine()
				var log []string
				served := 0
				done := make(chan error, 1)
				go func() {
					done <- Loop(ctx, l, func(s string) { log = append(log, s) }, func(net.Conn) { served++ })
				}()
				began := time.Now()
				for range 100 {
					l.next <- &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", errno)}
				}
				// 5 ms, 10 ms ... 640 ms, then a second each.
				took := time.Since(began)
				must.True(t, took >= 91*time.Second && took <= 93*time.Second, "100 failures took %v", took)
				synctest.Wait()
				must.True(t, len(log) == 1 && strings.Contains(log[0], errno.Error()), "log %q", log)
				for range 3 {
					l.next <- pipe{} // at once: the failure may come back
				}
				<-time.After(2 * time.Second) // of the bubble
				l.next <- pipe{}
				synctest.Wait()
				must.True(t, served == 4 && len(log) == 2 && strings.Contains(log[1], "works again, after 100 failures"), "served %d, log %q", served, log)
				cancel()
				_ = l.Close()
				must.OK(t, <-done)
			})
		})
	}
}

// TestLoopTellsFlappingOnce lets every other try fail, as when all descriptors are in use and
// one becomes free now and then.
func TestLoopTellsFlappingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLine()
		var log []string
		go func() { _ = Loop(ctx, l, func(s string) { log = append(log, s) }, func(net.Conn) {}) }()
		for range 1000 {
			l.next <- syscall.EMFILE
			l.next <- pipe{}
		}
		synctest.Wait()
		must.Equal(t, len(log), 1, "log %q", log)
		cancel()
		_ = l.Close()
	})
}

// TestLoopSaysThatItWasClosed: a closed listener is an error, not a requested end.
func TestLoopSaysThatItWasClosed(t *testing.T) {
	l := newLine()
	_ = l.Close()
	must.Is(t, Loop(t.Context(), l, func(string) {}, func(net.Conn) {}), net.ErrClosed)
}

// TestLoopOutlivesAPanic: a panic ends only its own connection, and is logged with its stack in
// one line.
func TestLoopOutlivesAPanic(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newLine()
	log := make(chan string, 10)
	served := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- Loop(ctx, l, func(s string) { log <- s }, func(c net.Conn) {
			if c.(pipe).Conn == nil {
				panic("in\nhandling")
			}
			close(served)
		})
	}()
	l.next <- pipe{}
	said := <-log
	for _, want := range []string{"192.0.2.1:1", "handling", "accept_test.go"} {
		must.Contain(t, said, want)
	}
	must.True(t, !strings.ContainsAny(said, "\n\t"), "more than a line: %q", said)
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	l.next <- pipe{one}
	<-served
	cancel()
	_ = l.Close()
	must.OK(t, <-done)
}

// TestCrowdDropsTheLargestSource: 1000 clients of one source do not cost another source its
// place.
func TestCrowdDropsTheLargestSource(t *testing.T) {
	c := NewCrowd(16)
	dropped := map[string]int{}
	enter := func(from string) *Place { return c.Enter(netip.MustParseAddr(from), func() { dropped[from]++ }) }
	lone := []*Place{enter("192.0.2.1"), enter("2001:db8::1")}
	var many []*Place
	for range 1000 {
		many = append(many, enter("198.51.100.7"))
	}
	must.Need(t, c.Count() == 16 && dropped["198.51.100.7"] == 1000-14 && len(dropped) == 1, "%d places, dropped %v", c.Count(), dropped)
	for _, p := range lone {
		must.True(t, p.Leave() && !p.Leave(), "a source with one place lost it, or left twice")
	}
	left := lists.Count(many, func(p *Place) bool { return p.Leave() })
	must.True(t, left == 14 && c.Count() == 0 && len(c.sources) == 0, "%d left, %d places of %d sources remain", left, c.Count(), len(c.sources))
}

// TestCrowdOfManySources: with one place per source, a newcomer is likely to stay while others
// come.
func TestCrowdOfManySources(t *testing.T) {
	stayed := 0
	for try := range 200 {
		c := NewCrowd(256)
		n := 0
		enter := func() *Place {
			n++
			return c.Enter(netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::1", try, n)), func() {})
		}
		for range 256 {
			enter()
		}
		p := enter()
		for range 32 {
			enter()
		}
		if p.Leave() {
			stayed++
		}
	}
	// The chance of being dropped is below (32/256)^2 / 2.
	must.True(t, stayed >= 190, "only %d of 200 stayed while 32 others came to 256 places", stayed)
}
