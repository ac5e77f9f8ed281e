package main

import (
	"context"
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
)

// crowdVar holds the order, as JSON, of the role "crowd".
const crowdVar = "LINERATE_TEST_CROWD"

// order says what a crowd of bad clients does.
type order struct {
	Attack  string
	Clients int
	Time    time.Duration
	Rate    int               // attempts a second of all clients together
	Server  string            // its address
	Ports   map[string]string // by listener: own, iperf3, iperf2, netpipe, udpstp
	Sources netip.Prefix      // each client has its own address in it, or a /64 of IPv6
	Victim  netip.Addr        // forged sender address
	Link    string            // for clients that have the secret
}

// tally counts what a crowd did.
type tally struct {
	Tries   int64            // attempts: connections or datagrams
	Forged  int64            // bytes sent in the victim's name
	Reached map[string]int64 // by attack, attempts that came as far as intended, shown by the server's answer
}

// hostile is one bad client of a crowd.
type hostile struct {
	order
	from   netip.Addr
	done   *tally
	pace   <-chan struct{}
	mu     *sync.Mutex // of done.Reached
	attack string      // the current one
}

// reached records that the server's behaviour shows that it has handled the attack.
func (h *hostile) reached() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done.Reached[h.attack]++
}

// attacks returns the attacks of a crowd, by name. Each makes one attempt and returns; those that
// hold something return when ctx ends or the server hangs up.
func attacks() map[string]func(h *hostile, ctx context.Context) {
	all := map[string]func(*hostile, context.Context){
		"silence":          (*hostile).silence,
		"drip":             (*hostile).drip,
		"half a record":    (*hostile).halfRecord,
		"tls and silence":  func(h *hostile, ctx context.Context) { h.inTLS(ctx, nil) },
		"noise in tls":     func(h *hostile, ctx context.Context) { h.inTLS(ctx, randomBytes) },
		"wrong secrets":    (*hostile).wrongSecret,
		"wrong tokens":     (*hostile).wrongToken,
		"half a preamble":  (*hostile).halfPreamble,
		"forged greetings": (*hostile).forgedGreeting,
		"forged iperf2":    (*hostile).forgedIperf2,
		"forged udpstp":    (*hostile).forgedUDPSTP,
		"openings":         (*hostile).opening,
		"drip openings":    (*hostile).dripOpening,
		"never reads":      (*hostile).neverReads,
		"greedy":           (*hostile).greedy,
	}
	for name, frames := range framesOfSessions() {
		all[name] = func(h *hostile, ctx context.Context) { h.inHTTP2(ctx, frames) }
	}
	for name, calls := range callsOfSessions() {
		all[name] = func(h *hostile, ctx context.Context) { h.calling(ctx, calls) }
	}
	return all
}

// attackNames returns the names of all attacks, in order.
func attackNames() []string {
	var names []string
	for name := range attacks() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// crowd runs the order in crowdVar and prints a tally.
func crowd(ctx context.Context) error {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(crowdVar)), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Time)
	defer cancel()
	all := attacks()
	names := attackNames()
	if _, ok := all[o.Attack]; !ok && o.Attack != "everything" {
		return fmt.Errorf("no attack %q", o.Attack)
	}
	pace := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second / time.Duration(o.Rate))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case pace <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	done := tally{Reached: map[string]int64{}}
	var mu sync.Mutex
	var clients sync.WaitGroup
	from := o.Sources.Addr()
	for range o.Clients {
		from = neighbour(from)
		h := &hostile{order: o, from: from, done: &done, pace: pace, mu: &mu}
		clients.Go(func() {
			for h.next(ctx) {
				name := o.Attack
				if name == "everything" {
					name = names[mathrand.IntN(len(names))]
				}
				h.attack = name
				all[name](h, ctx)
			}
		})
	}
	clients.Wait()
	return json.NewEncoder(os.Stdout).Encode(done)
}

// neighbour returns the next address that counts as another source.
func neighbour(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a.Next()
	}
	b := a.As16()
	endian.BigEndian.PutUint64(b[:8], endian.BigEndian.Uint64(b[:8])+1)
	b[15] = 1
	return netip.AddrFrom16(b)
}

// next waits for the client's turn; false ends it.
func (h *hostile) next(ctx context.Context) bool {
	select {
	case <-h.pace:
		atomic.AddInt64(&h.done.Tries, 1)
		return true
	case <-ctx.Done():
		return false
	}
}

// some returns one of the server's ports.
func (h *hostile) some() string {
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range h.Ports {
			if n != "udpstp" && !yield(n) { // it has no TCP
				return
			}
		}
	})
	return names[mathrand.IntN(len(names))]
}

// dial connects to a listener from the client's own address; nil if the server refuses.
func (h *hostile) dial(ctx context.Context, listener string) net.Conn {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: h.from.AsSlice()}, Timeout: 3 * time.Second}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(h.Server, h.Ports[listener]))
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return c
}

// hold keeps c until the server closes it, which shows that it has handled the client, or ctx
// ends.
func (h *hostile) hold(ctx context.Context, c net.Conn) {
	err := untilHungUp(c)
	if ctx.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		h.reached()
	}
}

// untilHungUp reads from c until that fails, and closes it.
func untilHungUp(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	_ = c.Close()
	return err
}

// friend opens sessions with the link in crowdVar until it is interrupted, and prints how long
// each took to get the host's facts, as JSON.
func friend(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	l, err := tls.ParseLink(os.Getenv(crowdVar))
	if err != nil {
		return err
	}
	took := []time.Duration{}
	for ctx.Err() == nil {
		began := time.Now()
		if err := visit(context.WithoutCancel(ctx), l); err != nil {
			return fmt.Errorf("after %v: %w", time.Since(began), err)
		}
		took = append(took, time.Since(began))
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return json.NewEncoder(os.Stdout).Encode(took)
}

// visit opens a session, reads the host's facts and closes it.
func visit(ctx context.Context, l tls.Link) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	p, err := tls.Dial(ctx, l, model.Egress{})
	if err != nil {
		return err
	}
	c, err := session.Open(ctx, p, session.Options{Host: model.Far, Version: "v0.0.0"})
	if err != nil {
		return err
	}
	_, err = c.Facts(ctx, "")
	_, closing := c.Close(ctx)
	return errors.Join(err, closing)
}
