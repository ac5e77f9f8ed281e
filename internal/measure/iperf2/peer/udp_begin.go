package peer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/iperf2"
)

// Source addresses can be forged, so one datagram must cost the server nothing. A flow from an
// unverified address waits in a bounded table until more datagrams arrive in order. Then it
// gets a place, but a client that sends more can take the place from it, and a verified address
// can take it at once. All unverified flows together are one session of the budget, which
// forgers cannot exhaust.
const (
	mostWaiting = 1024 // addresses with a first datagram
	mostLeads   = 8    // datagrams kept of a waiting flow; if it then gets no place, it is refused
	// mostSkipped is how many datagrams may be lost between two of a waiting flow.
	mostSkipped = 10_000
	// drowsy is how long an unverified flow must be silent to lose its place: by default iperf
	// 2 sends every 11 ms.
	drowsy = 250 * time.Millisecond
	// seekEvery is how often room is made for unverified addresses: each time scans all flows.
	seekEvery = 5 * time.Millisecond
	// flowMemory is the memory charged for a flow's counters, bytes: a bit for each of 64 Ki
	// numbers, orders and histograms.
	flowMemory = 64 << 10
	// chargeEvery is how often a flow's use is charged.
	chargeEvery = time.Second
)

// newcomer is a flow that waits for more datagrams.
type newcomer struct {
	flow  *udpFlow
	leads []lead
}

// lead is a datagram of a waiting flow.
type lead struct {
	head   [16]byte // of either layout
	length int
	number uint64
	at     time.Duration
}

// layout returns the layout of the flow's datagrams.
func (f *udpFlow) layout() iperf2.Layout {
	if f.old {
		return iperf2.Layout12
	}
	return iperf2.Layout16
}

// begin returns the flow that a first datagram starts; nil if it starts none, or none yet.
func (u *udpServer) begin(ctx context.Context, b []byte, from netip.AddrPort, at time.Duration) *udpFlow {
	if w := u.waiting[from]; w != nil {
		return u.again(ctx, w, b, at)
	}
	layout, sure := iperf2.DetectLayout(b)
	if !sure {
		layout = iperf2.Layout12 // its first datagram was lost: 2.1 has its flags in each
	}
	d, err := iperf2.ParseDatagram(b, layout)
	if err != nil || d.Final() {
		return nil // not a first datagram; an answer would make this server a reflector
	}
	h, err := iperf2.ParseHeader(b[layout.HeaderOffset():], layout.HeaderOffset())
	f := &udpFlow{from: from, local: u.conn.Asked(), header: h, old: layout == iperf2.Layout12, mode: h.Mode(), seen: at, charged: at, known: u.knows(from.Addr())}
	if err == nil {
		err = u.permit(f)
	}
	switch {
	case err != nil:
		return u.refuse(f, err)
	case !f.known && f.mode == iperf2.Forward:
		u.wait(f, b, d, at)
		return nil
	}
	return u.enter(ctx, f, 1)
}

// knows reports whether a is verified: a TCP connection came from it, or no other host can send
// as a.
func (s *server) knows(a netip.Addr) bool {
	return s.proven.has(a) || a.Unmap().IsLoopback() && s.UDPTo(a.Unmap())
}

// wait keeps the first datagram of a flow. If too many wait, it replaces a random one.
func (u *udpServer) wait(f *udpFlow, b []byte, d iperf2.Datagram, at time.Duration) {
	if len(u.waiting) >= mostWaiting {
		for any := range u.waiting { // one at random, so that no client can lock others out
			delete(u.waiting, any)
			break
		}
	}
	w := &newcomer{flow: f}
	w.keep(b, d, at)
	u.waiting[f.from] = w
}

func (w *newcomer) keep(b []byte, d iperf2.Datagram, at time.Duration) {
	l := lead{length: len(b), number: d.Number(), at: at}
	copy(l.head[:], b)
	w.leads = append(w.leads, l)
}

// again handles a further datagram of a waiting flow. It starts the flow if the datagram is in
// order and there is a place.
func (u *udpServer) again(ctx context.Context, w *newcomer, b []byte, at time.Duration) *udpFlow {
	d, err := iperf2.ParseDatagram(b, w.flow.layout())
	if err != nil {
		return nil
	}
	last := w.leads[len(w.leads)-1].number
	if n := d.Number(); n <= last || n-last > mostSkipped {
		delete(u.waiting, w.flow.from) // another flow may begin
		return nil
	}
	f := w.flow
	f.seen, f.known = at, u.knows(f.from.Addr())
	if u.full(f) && !u.makeRoom(f, len(w.leads)+1, at) && len(w.leads) < mostLeads && !d.Final() {
		w.keep(b, d, at)
		return nil
	}
	delete(u.waiting, f.from)
	if f = u.enter(ctx, f, len(w.leads)+1); f == nil || f.refused {
		return f
	}
	for _, l := range w.leads {
		copy(u.spare, l.head[:])
		f.got += int64(l.length)
		f.in.take(u.spare[:l.length], l.at, false)
	}
	return f
}

// forget drops flows that have waited too long.
func (u *udpServer) forget(at time.Duration) {
	for from, w := range u.waiting {
		if at-w.leads[len(w.leads)-1].at > u.Idle {
			delete(u.waiting, from)
		}
	}
}

// refuse records f as a flow to ignore, which is the protocol's only refusal; nil if too many
// are recorded.
func (u *udpServer) refuse(f *udpFlow, err error) *udpFlow {
	u.tell(f.seen, "refused datagrams from %v: %v", f.from, err)
	if len(u.flows) >= mostRefused {
		return nil
	}
	f.refused = true
	u.flows[f.from] = f
	return f
}

// enter takes the resources of f and starts it; came is the number of its datagrams so far.
func (u *udpServer) enter(ctx context.Context, f *udpFlow, came int) *udpFlow {
	if u.full(f) {
		u.makeRoom(f, came, f.seen)
	}
	if err := u.afford(f); err != nil {
		return u.refuse(f, err)
	}
	f.in = newArrivals(f.layout(), 0)
	u.flows[f.from] = f
	u.Begun(Result{Peer: f.from, Mode: f.mode, UDP: true, Threads: int(f.header.Threads)})
	if f.mode != iperf2.Forward && f.mode != iperf2.TradeOff {
		u.reply(ctx, f)
	}
	return f
}

// afford takes a place for f, and a session of the budget until f.leave: that of f's source if
// f is verified or will be sent to, else the shared one.
func (u *udpServer) afford(f *udpFlow) error {
	if err := u.udp.admit(f.from.Addr()); err != nil {
		return err
	}
	release := func() { u.udp.release(f.from.Addr()) }
	payer := f.from.Addr()
	if !f.known && f.mode == iperf2.Forward {
		payer = netip.Addr{}
	}
	g, gone, err := u.guests.enter(u.Budget, payer)
	if err != nil {
		release()
		return err
	}
	need := budget.Amounts{Memory: flowMemory}
	if f.mode.ConnectsBack() {
		need.Descriptors = 1
	}
	give, err := g.share.Take(need)
	if err != nil {
		gone()
		release()
		return err
	}
	f.guest = g
	f.leave = sync.OnceFunc(func() {
		give()
		gone()
		release()
	})
	return nil
}

// full reports whether there is no place for f.
func (u *udpServer) full(f *udpFlow) bool { return u.udp.full(f.from.Addr()) != nil }

// makeRoom ends another unverified flow for f: one that is silent or has sent fewer than came
// datagrams; for a verified f, any. It reports whether there is a place now.
func (u *udpServer) makeRoom(f *udpFlow, came int, at time.Duration) bool {
	if !f.known {
		if at-u.sought < seekEvery && u.sought > 0 {
			return false
		}
		u.sought = at
	}
	own := errors.Is(u.udp.full(f.from.Addr()), errPerClient)
	var least *udpFlow
	for _, v := range u.flows {
		switch {
		case v.refused || v.over || v.known || v.back || own && source(v.from.Addr()) != source(f.from.Addr()):
		case !f.known && at-v.seen < drowsy && v.in.got.Load() >= int64(came):
		case least == nil || v.in.got.Load() < least.in.got.Load():
			least = v
		}
	}
	if least == nil {
		return false
	}
	least.over, least.thrown = true, "to receiver: ended: made room for others"
	least.leave()
	delete(u.flows, least.from)
	u.goGuarded(least.from, func() { u.end(least) })
	return true
}

// charge charges f's time every chargeEvery, and ends it if the budget is spent.
func (u *udpServer) charge(f *udpFlow, at time.Duration) {
	if f.refused || f.over || at-f.charged < chargeEvery {
		return
	}
	f.charged = at
	err := f.guest.charge(0)
	if err == nil {
		return
	}
	f.over, f.thrown = true, fmt.Sprintf("ended: %v", err)
	if f.stop != nil {
		f.stop()
	}
	u.tell(at, "client %v: ended a UDP flow: %v", f.from, err)
	u.goGuarded(f.from, func() { u.end(f) })
}

// permit returns an error if a flow may not be served.
func (u *udpServer) permit(f *udpFlow) error {
	asked := f.asked() * units.BitRate(f.threads())
	switch {
	case f.mode != iperf2.Reverse && u.UDPRate > 0 && asked > u.UDPRate:
		return fmt.Errorf("%v over UDP, at most %v", asked, u.UDPRate)
	case f.mode == iperf2.Forward:
		return nil
	case !u.mayLoad(f.from.Addr()):
		return fmt.Errorf("%s test: no TCP connection came from there, and the sender of a datagram can be forged", f.mode)
	case f.mode.ConnectsBack() && (f.header.Port < 1 || f.header.Port > math.MaxUint16):
		return fmt.Errorf("%s test: the client listens on port %d: not between 1 and %d", f.mode, f.header.Port, math.MaxUint16)
	}
	return nil
}

// asked returns the rate in a flow's header; 0 if none.
func (f *udpFlow) asked() units.BitRate {
	if f.old {
		return units.BitRate(max(f.header.WinBand, 0))
	}
	return units.BitRate(f.header.Extension.BitsPerSecond)
}

// threads returns how many flows the client's test has, according to the client.
func (f *udpFlow) threads() int32 { return min(max(f.header.Threads, 1), mostThreads) }
