// Package hops finds the routers on the path to a peer, and how fast each of them answers,
// without load and under load, which shows where packets queue.
//
// It sends datagrams that may pass only a limited number of routers (TTL, RFC 791 section 3.2;
// hop limit, RFC 8200 section 3). The router where one expires reports that (ICMP time
// exceeded, RFC 792; RFC 4443 section 3.3), and the peer reports a closed port (port
// unreachable).
//
// All distances of a round are probed from one port, so that routers that balance load by
// addresses and ports send them the same way; the rounds use a few ports in turn, so that some
// take the load's way (model.Trace.Port). Only if answers do not quote enough of the probe does
// each distance get a port of its own. docs/wire/hops.md describes the bytes.
package hops

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/panics"
)

const (
	// mostHops is the greatest distance probed, as in traceroute(8).
	mostHops = 30
	// idleRounds is as many as a router with Linux's default limit answers at once
	// (XRLIM_BURST_FACTOR of net/ipv4/route.c is 6), minus one for the load.
	idleRounds = 5
	// loadedGap is the time between two rounds under load, mostRounds the most that are kept.
	loadedGap  = 125 * time.Millisecond
	mostRounds = 256
	// spacing is the time between two datagrams of a round, so that they do not exhaust a
	// router's global limit on ICMP errors (net.ipv4.icmp_msgs_burst is 50).
	spacing = 2 * time.Millisecond
	// wireBits is a probe's size on Ethernet with preamble and gap.
	wireBits = 90 * 8
	// share is the part of the path's rate that the probes under load may take.
	share = 0.01
	// patience is how long to wait for answers after the last round.
	patience = time.Second
	// sizeRounds is the number of rounds for each size of Sizes: a router with Linux's default
	// limit answers both sizes' rounds at once.
	sizeRounds = 3
	leastPause = 50 * time.Millisecond
	// closedPort is where every other source port sends to. The peer reports it as closed, as
	// its hosts do to traceroute(8), even if it leaves the port of its probes open for others.
	closedPort = 33434
)

const (
	cookieSize = 8
	quoted     = cookieSize + 8 // bytes of a probe that identify its distance and round
)

// answer is the answer to a probe.
type answer struct {
	quote  []byte        // of the probe's payload; short if the router quotes less
	from   netip.Addr    // the sender of the answer
	tooBig bool          // it reports that the packet was too big
	at     time.Time     // arrival; its wall clock is the kernel's time stamp if there is one
	took   time.Duration // since its probe, if the system measures that; else 0
}

// socket sends probes and receives answers. One goroutine may send while another receives.
type socket interface {
	// send sends b with that TTL.
	send(ttl int, b []byte) error
	// receive waits for the next answer. The quote is valid until the next call.
	receive() (answer, error)
	// close also ends receive.
	close() error
}

// phase is the part of the trace that a round belongs to.
type phase int

const (
	idle phase = iota
	quiet
	loaded
	over
)

// Tracer probes the path to a peer until Report.
type Tracer struct {
	peer      netip.Addr
	direction model.Direction
	lead      time.Duration
	rate      func() float64
	open      func(ctx context.Context, i int) (socket, error)
	cookie    [cookieSize]byte
	turn      chan struct{} // gets a value at each new phase
	running   sync.WaitGroup
	fail      func(error)

	mu      sync.Mutex
	phase   phase
	began   time.Time // of the phase
	ports   int       // source ports in turn
	sockets []socket  // the first are for all distances, one for each port; then one for each distance, from 1
	short   bool      // an answer did not quote enough
	hops    [mostHops + 1]hop
	reach   int // distance of the peer, mostHops until known
	sent    []sentRound
	failure error
}

// hop is one distance.
type hop struct {
	address [sourcePorts]netip.Addr     // by source port
	times   [loaded + 1][]time.Duration // by round
}

// answered returns who answered there first, by source port; invalid if none did.
func (h hop) answered() netip.Addr {
	for _, a := range h.address {
		if a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

// sentRound records when each distance of a round was probed.
type sentRound struct {
	phase phase
	index int // among the rounds of its phase
	at    [mostHops + 1]time.Time
}

// Config sets what to trace.
type Config struct {
	Direction model.Direction // the caller is its sender
	Local     netip.Addr      // of the load's packets
	Peer      netip.AddrPort
	Egress    model.Egress
	Lead      time.Duration  // before the load
	Fail      func(error)    // gets a panic of a goroutine of the trace
	whole     bool           // packets must not be fragmented
	Rate      func() float64 // bit/s of the load so far, 0 is unknown
}

// Start opens the sockets and begins the rounds without load. The error says why this system,
// or this user, cannot trace.
func Start(ctx context.Context, c Config) (*Tracer, error) {
	t, err := prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	t.running.Go(panics.From(c.Fail, func() { t.probe(ctx) }))
	return t, nil
}

// prepare opens the sockets.
func prepare(ctx context.Context, c Config) (*Tracer, error) {
	t := &Tracer{
		peer: c.Peer.Addr().Unmap().WithZone(""), direction: c.Direction, lead: c.Lead, rate: c.Rate, fail: c.Fail, reach: mostHops, began: time.Now(),
		open: func(ctx context.Context, i int) (socket, error) {
			c := c
			if i%2 == 1 {
				c.Peer = netip.AddrPortFrom(c.Peer.Addr(), closedPort)
			}
			return open(ctx, c)
		}, turn: make(chan struct{}, 1),
	}
	_, _ = rand.Read(t.cookie[:]) // never fails
	most := sourcePorts
	if c.whole {
		most = min(most, 2)
	}
	for t.ports < most {
		s, err := t.open(ctx, t.ports)
		switch {
		case err == nil:
			t.listen(s, 0)
			t.ports++
		case t.ports == 0:
			return nil, err
		default:
			return t, nil // with fewer
		}
	}
	return t, nil
}

// Sizes finds how far IP packets of that size get without fragmentation, in about a second. In
// the trace, the times without load are those of small packets, the others those of packets of
// that size.
func Sizes(ctx context.Context, c Config, bytes int) (model.Trace, error) {
	c.whole = true
	t, err := prepare(ctx, c)
	if err != nil {
		return model.Trace{}, err
	}
	headers := 28 // IPv4 and UDP
	if t.peer.Is6() {
		headers = 48
	}
	for i := range sizeRounds {
		for _, p := range []phase{idle, loaded} {
			payload := quoted
			if p == loaded {
				payload = max(quoted, bytes-headers)
			}
			t.enter(p)
			t.round(ctx, p, i, payload)
			if !pause(ctx, max(leastPause, t.remaining())) {
				break
			}
		}
	}
	return t.Report(ctx), context.Cause(ctx)
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// listen receives the answers of s; ttl is its distance, 0 for all.
func (t *Tracer) listen(s socket, ttl int) {
	t.mu.Lock()
	t.sockets = append(t.sockets, s)
	t.mu.Unlock()
	t.running.Go(panics.From(t.fail, func() {
		for {
			a, err := s.receive()
			if err != nil {
				return
			}
			t.hear(a, ttl)
		}
	}))
}

// hear records an answer.
func (t *Tracer) hear(a answer, ttl int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !a.from.IsValid() || a.tooBig { // from this host, or about a packet that was too big
		return
	}
	round := len(t.sent) - 1
	for ttl > 0 && round > 0 && t.sent[round].at[ttl].IsZero() {
		round-- // the last round that probed this distance
	}
	switch {
	case len(a.quote) >= quoted && [cookieSize]byte(a.quote) == t.cookie:
		ttl = int(binary.BigEndian.Uint32(a.quote[cookieSize:]))
		round = int(binary.BigEndian.Uint32(a.quote[cookieSize+4:]))
	case len(a.quote) >= quoted:
		return // from another run
	case ttl == 0:
		t.short = true
		return
	}
	if ttl < 1 || ttl > mostHops || round < 0 || round >= len(t.sent) {
		return
	}
	r := &t.sent[round]
	took := a.took
	if took == 0 {
		took = a.at.Round(0).Sub(r.at[ttl].Round(0)) // by the wall clock, which the kernel's time stamps use
		if since := time.Since(r.at[ttl]); took <= 0 || took > since {
			took = since
		}
	}
	h := &t.hops[ttl]
	h.address[t.port(r.index)] = a.from
	if times := h.times[r.phase]; !r.at[ttl].IsZero() && r.index < len(times) && times[r.index] == 0 {
		times[r.index] = took
	}
	if a.from == t.peer {
		t.reach = min(t.reach, ttl)
	}
}

// port returns the source port of a round of a phase, 0 where each distance has its own.
func (t *Tracer) port(index int) int {
	if t.short {
		return 0
	}
	return model.Trace{Ports: t.ports}.Port(index)
}

// Quiet ends the rounds without load.
func (t *Tracer) Quiet() { t.enter(quiet) }

// Load begins the rounds under load.
func (t *Tracer) Load() { t.enter(loaded) }

// End ends the rounds.
func (t *Tracer) End() { t.enter(over) }

func (t *Tracer) enter(p phase) {
	t.mu.Lock()
	t.phase, t.began = p, time.Now()
	if p == loaded && t.reach == mostHops {
		t.reach = min(mostHops, t.farthest()+model.TraceBeyond)
	}
	t.mu.Unlock()
	select {
	case t.turn <- struct{}{}:
	default:
	}
}

// farthest returns the greatest distance that answered, 0 for none.
func (t *Tracer) farthest() int {
	last := 0
	for ttl := 1; ttl <= mostHops; ttl++ {
		if t.hops[ttl].answered().IsValid() {
			last = ttl
		}
	}
	return last
}

// probe sends the rounds of each phase.
func (t *Tracer) probe(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.turn:
		case <-timer.C:
		}
		next, done := t.step(ctx)
		if done {
			return
		}
		timer.Reset(next)
	}
}

// step sends a round if one is due, and returns the time until the next one.
func (t *Tracer) step(ctx context.Context) (time.Duration, bool) {
	t.mu.Lock()
	p, began, reach := t.phase, t.began, t.reach
	rounds := 0
	for _, r := range t.sent {
		if r.phase == p {
			rounds++
		}
	}
	t.mu.Unlock()
	var due time.Duration
	switch {
	case p == over:
		return 0, true
	case p == quiet, p == idle && rounds >= idleRounds, rounds >= mostRounds:
		return time.Hour, false
	case p == idle:
		due = t.lead * time.Duration(rounds) / (idleRounds + 1)
	default:
		due = t.gap(reach) * time.Duration(rounds)
	}
	if wait := due - time.Since(began); wait > 0 {
		return wait, false
	}
	t.round(ctx, p, rounds, quoted)
	return 0, false
}

// gap returns the time between two rounds under load.
func (t *Tracer) gap(reach int) time.Duration {
	rate := t.rate()
	if rate <= 0 {
		return loadedGap
	}
	return max(loadedGap, time.Duration(float64(reach*wireBits)/(share*rate)*float64(time.Second)))
}

// round probes each distance once, with payload bytes.
func (t *Tracer) round(ctx context.Context, p phase, index, payload int) {
	t.mu.Lock()
	own := t.short && len(t.sockets) == t.ports
	t.mu.Unlock()
	if own {
		t.apart(ctx)
	}
	t.mu.Lock()
	number := len(t.sent)
	t.sent = append(t.sent, sentRound{phase: p, index: index})
	for i := range t.hops {
		t.hops[i].times[p] = append(t.hops[i].times[p], 0)
	}
	t.mu.Unlock()
	b := make([]byte, payload)
	copy(b, t.cookie[:])
	binary.BigEndian.PutUint32(b[cookieSize+4:], uint32(number))
	for ttl := 1; ; ttl++ {
		t.mu.Lock()
		if ttl > t.reach || t.phase != p {
			t.mu.Unlock()
			return
		}
		s := t.sockets[t.port(index)]
		if at := t.ports + ttl - 1; at < len(t.sockets) {
			s = t.sockets[at]
		}
		t.sent[number].at[ttl] = time.Now()
		t.mu.Unlock()
		binary.BigEndian.PutUint32(b[cookieSize:], uint32(ttl))
		var err error
		for range 4 { // each error of an earlier answer is reported once (sock_error, net/core/sock.c)
			if err = s.send(ttl, b); err == nil {
				break
			}
		}
		if err != nil {
			t.mu.Lock()
			t.failure = err
			t.mu.Unlock()
		}
		time.Sleep(spacing)
	}
}

// apart opens a socket for each distance, so that answers without a quote can be assigned.
func (t *Tracer) apart(ctx context.Context) {
	for ttl := 1; ttl <= mostHops; ttl++ {
		s, err := t.open(ctx, ttl)
		if err != nil {
			return // farther distances stay indistinguishable
		}
		t.listen(s, ttl)
	}
}
