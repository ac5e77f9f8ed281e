// Package hops finds which routers a packet passes on its way to a peer, and after which
// time each of them answers: before a load and under it, which tells where packets wait.
//
// It sends datagrams that may pass only so many routers (TTL, RFC 791 section 3.2; hop
// limit, RFC 8200 section 3). The router at which one ends says so (ICMP time exceeded, RFC
// 792; RFC 4443 section 3.3), and the peer that nothing listens (port unreachable).
//
// All distances are probed from one port, so that what chooses ways by addresses and ports
// sends them the same way; only where answers do not quote what was sent does each distance
// get a port of its own. docs/wire/hops.md has the bytes.
package hops

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/rescue"
)

const (
	// mostHops is the greatest distance that is probed, as of traceroute(8).
	mostHops = 30
	// idleRounds are as many as a router with Linux's default limit answers at once
	// (XRLIM_BURST_FACTOR of net/ipv4/route.c is 6), less one for the load.
	idleRounds = 5
	// loadedGap is the time between two rounds under load, and mostRounds as many as are kept.
	loadedGap  = 250 * time.Millisecond
	mostRounds = 256
	// spacing is the time between two datagrams of a round, so that they take no burst of
	// a router's limit on ICMP errors of all destinations (net.ipv4.icmp_msgs_burst is 50).
	spacing = 2 * time.Millisecond
	// wireBits is what a probe takes on Ethernet with preamble and gap.
	wireBits = 90 * 8
	// share of what the path carries that the probes under load may take.
	share = 0.01
	// patience is how long answers are waited for after the last round.
	patience = time.Second
	// sizeRounds are those of each size of Sizes: with both a router with Linux's default
	// limit answers all at once.
	sizeRounds = 3
	leastPause = 50 * time.Millisecond
)

const (
	cookieSize = 8
	quoted     = cookieSize + 8 // bytes of a probe that tell its distance and round
)

// answer is what came back of a probe.
type answer struct {
	quote  []byte        // of the probe's payload; short where the router quotes less
	from   netip.Addr    // of what answered
	tooBig bool          // it says that the packet was
	at     time.Time     // when it came; its wall clock is the kernel's where it has one
	took   time.Duration // since its probe, where the system measures that; else 0
}

// socket sends probes and hears answers. One goroutine may send while another receives.
type socket interface {
	// send sends b with that TTL.
	send(ttl int, b []byte) error
	// receive waits for the next answer. The quote is valid until the next call.
	receive() (answer, error)
	// close ends receive, too.
	close() error
}

// phase says to what a round belongs.
type phase int

const (
	idle phase = iota
	quiet
	loaded
	over
)

// Tracer probes the way to a peer until Report.
type Tracer struct {
	peer      netip.Addr
	direction model.Direction
	lead      time.Duration
	rate      func() float64
	open      func(ctx context.Context) (socket, error)
	cookie    [cookieSize]byte
	turn      chan struct{} // gets a value when the phase is new
	running   sync.WaitGroup
	fail      func(error)

	mu      sync.Mutex
	phase   phase
	began   time.Time // of the phase
	sockets []socket  // the first is that of all distances; then one for each distance, from 1 on
	short   bool      // some answer did not quote enough
	hops    [mostHops + 1]hop
	reach   int // distance of the peer, or mostHops while it is not known
	sent    []sentRound
	failure error
}

// hop is a distance.
type hop struct {
	address netip.Addr
	times   [loaded + 1][]time.Duration // by round
}

// sentRound is when each distance of a round was probed.
type sentRound struct {
	phase phase
	index int // among the rounds of its phase
	at    [mostHops + 1]time.Time
}

// Config says what is traced.
type Config struct {
	Direction model.Direction // the caller is its sender
	Local     netip.Addr      // of the load's packets
	Peer      netip.AddrPort
	Egress    model.Egress
	Lead      time.Duration  // before the load
	Fail      func(error)    // gets a panic of what runs beside the caller
	whole     bool           // packets must not be cut on the way
	Rate      func() float64 // bit/s that the load has moved so far, 0 for unknown
}

// Start opens what is needed and begins the rounds without load. Its error says why this
// system, or this user, cannot do it.
func Start(ctx context.Context, c Config) (*Tracer, error) {
	t, err := prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	t.running.Go(rescue.From(c.Fail, func() { t.probe(ctx) }))
	return t, nil
}

// prepare opens what is needed.
func prepare(ctx context.Context, c Config) (*Tracer, error) {
	t := &Tracer{
		peer: c.Peer.Addr().Unmap().WithZone(""), direction: c.Direction, lead: c.Lead, rate: c.Rate, fail: c.Fail, reach: mostHops, began: time.Now(),
		open: func(ctx context.Context) (socket, error) { return open(ctx, c) }, turn: make(chan struct{}, 1),
	}
	_, _ = rand.Read(t.cookie[:]) // never fails
	first, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	t.listen(first, 0)
	return t, nil
}

// Sizes finds how far IP packets of that many bytes get that must not be cut, in a second
// or so: the trace's times without load are those of small packets, and the others of these.
func Sizes(ctx context.Context, c Config, bytes int) (model.Trace, error) {
	c.whole = true
	t, err := prepare(ctx, c)
	if err != nil {
		return model.Trace{}, err
	}
	headers := 28 // of IPv4 and UDP
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

// pause reports whether ctx still held after d.
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

// listen hears what s hears; ttl is the distance that it belongs to, 0 for all.
func (t *Tracer) listen(s socket, ttl int) {
	t.mu.Lock()
	t.sockets = append(t.sockets, s)
	t.mu.Unlock()
	t.running.Go(rescue.From(t.fail, func() {
		for {
			a, err := s.receive()
			if err != nil {
				return
			}
			t.hear(a, ttl)
		}
	}))
}

// hear notes an answer.
func (t *Tracer) hear(a answer, ttl int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !a.from.IsValid() || a.tooBig { // of this host, or of what a packet did not get past
		return
	}
	round := len(t.sent) - 1
	for ttl > 0 && round > 0 && t.sent[round].at[ttl].IsZero() {
		round-- // to the last one that probed this distance
	}
	switch {
	case len(a.quote) >= quoted && [cookieSize]byte(a.quote) == t.cookie:
		ttl = int(binary.BigEndian.Uint32(a.quote[cookieSize:]))
		round = int(binary.BigEndian.Uint32(a.quote[cookieSize+4:]))
	case len(a.quote) >= quoted:
		return // not of this run
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
		took = a.at.Round(0).Sub(r.at[ttl].Round(0)) // by the wall clock, which the kernel stamps with
		if since := time.Since(r.at[ttl]); took <= 0 || took > since {
			took = since
		}
	}
	h := &t.hops[ttl]
	h.address = a.from
	if times := h.times[r.phase]; !r.at[ttl].IsZero() && r.index < len(times) && times[r.index] == 0 {
		times[r.index] = took
	}
	if a.from == t.peer {
		t.reach = min(t.reach, ttl)
	}
}

// Quiet ends the rounds without load, Load begins those under it, and End ends them.
func (t *Tracer) Quiet() { t.enter(quiet) }

// Load begins the rounds under load.
func (t *Tracer) Load() { t.enter(loaded) }

// End ends the rounds.
func (t *Tracer) End() { t.enter(over) }

func (t *Tracer) enter(p phase) {
	t.mu.Lock()
	t.phase, t.began = p, time.Now()
	if p == loaded && t.reach == mostHops {
		t.reach = min(mostHops, t.farthest()+beyond)
	}
	t.mu.Unlock()
	select {
	case t.turn <- struct{}{}:
	default:
	}
}

// beyond is how far behind the last router that answers is probed under load where the peer
// does not answer: a server whose port is open for others says nothing.
const beyond = 2

// farthest is the greatest distance that answered, 0 for none.
func (t *Tracer) farthest() int {
	last := 0
	for ttl := 1; ttl <= mostHops; ttl++ {
		if t.hops[ttl].address.IsValid() {
			last = ttl
		}
	}
	return last
}

// probe sends the rounds, as the phase has them.
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

// step sends a round if one is due, and returns when the next one is.
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

// gap is the time between two rounds under load.
func (t *Tracer) gap(reach int) time.Duration {
	rate := t.rate()
	if rate <= 0 {
		return loadedGap
	}
	return max(loadedGap, time.Duration(float64(reach*wireBits)/(share*rate)*float64(time.Second)))
}

// round probes each distance once, with that many bytes of payload.
func (t *Tracer) round(ctx context.Context, p phase, index, payload int) {
	t.mu.Lock()
	own := t.short && len(t.sockets) == 1
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
		s := t.sockets[0]
		if len(t.sockets) > ttl {
			s = t.sockets[ttl]
		}
		t.sent[number].at[ttl] = time.Now()
		t.mu.Unlock()
		binary.BigEndian.PutUint32(b[cookieSize:], uint32(ttl))
		var err error
		for range 4 { // each error of an answer before is reported once (sock_error, net/core/sock.c)
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

// apart opens a socket for each distance, which then tells them apart.
func (t *Tracer) apart(ctx context.Context) {
	for ttl := 1; ttl <= mostHops; ttl++ {
		s, err := t.open(ctx)
		if err != nil {
			return // distances beyond are not told apart
		}
		t.listen(s, ttl)
	}
}

// Report waits for the last answers, ends everything and says what was found.
func (t *Tracer) Report(ctx context.Context) model.Trace {
	t.End()
	wait := time.NewTimer(t.remaining())
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	wait.Stop()
	t.mu.Lock()
	sockets := slices.Clone(t.sockets)
	t.mu.Unlock()
	errs := lists.Each(sockets, func(s socket) error { return s.close() })
	t.running.Wait()
	out := model.Trace{Direction: t.direction}
	last := min(t.reach, t.farthest())
	for ttl := 1; ttl <= last; ttl++ {
		h := t.hops[ttl]
		row := model.TraceHop{TTL: ttl, Idle: h.times[idle], Loaded: h.times[loaded]}
		if h.address.IsValid() {
			row.Address, row.Arrived = h.address.String(), h.address == t.peer
		}
		out.Hops = append(out.Hops, row)
	}
	if last == 0 {
		out.Why = "neither a router nor the far end answers"
		if err := errors.Join(append(errs, t.failure)...); err != nil {
			out.Why = fmt.Sprintf("%s: %v", out.Why, err)
		}
	}
	return out
}

// remaining is how long the last answers are waited for: twice the longest time that any
// took, or patience where one is missing that came before.
func (t *Tracer) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var most time.Duration
	for _, h := range t.hops {
		for _, times := range h.times {
			for _, d := range times {
				most = max(most, d)
			}
		}
	}
	return min(2*most, patience)
}
