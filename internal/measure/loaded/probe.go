package loaded

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/panics"
)

// past is a deadline that ends every call on a connection.
var past = time.Unix(1, 0)

// maxFaults is how many consecutive errors end the reading of datagrams. Single ones come from
// ICMP: the port was still closed, or there was no route.
const maxFaults = 1000

// prober sends and receives at the near end.
type prober struct {
	*test
	start   time.Time
	quit    chan struct{} // closed to stop sending
	running sync.WaitGroup
	tcps    tracker
	udps    tracker

	loadAck chan struct{} // closed when the far end has begun the load
	gone    chan struct{} // closed when the far end's connection has ended
	reason  error         // the reason, set before gone is closed

	plan     atomic.Pointer[plan]
	began    atomic.Int64  // start of the load, 0 before
	reported atomic.Uint64 // bits of load that have arrived at the far end since, by its last report; 0 if none
	heard    chan struct{} // gets a value with each new reported
	skipped  atomic.Int64  // probes not sent, because this end was delayed
}

// plan is the schedule of the probes.
type plan struct {
	gap    time.Duration // between two probes of a kind
	double bool          // gap is the first gap of a window, and each further one is twice the previous
	since  time.Duration // start, after a time without probes
	window bool          // the probes count, from opened on
	opened time.Duration
	mute   *tracker // the kind that is not sent, nil if both are
}

// never is a gap longer than any run.
const never = 24 * time.Hour

func newProber(t *test) *prober {
	p := &prober{test: t, quit: make(chan struct{}), loadAck: make(chan struct{}), gone: make(chan struct{}), heard: make(chan struct{}, 1)}
	p.plan.Store(&plan{gap: min(pace(t.link, udpBits+tcpBits), mostPace)})
	return p
}

// begin starts the probes. The two kinds take turns.
func (p *prober) begin() {
	p.start = time.Now()
	p.running.Go(panics.From(p.Fail, p.listenTCP))
	p.running.Go(panics.From(p.Fail, func() { p.send(p.plan.Load().gap/2, &p.tcps, p.sendTCP) }))
	if p.udp == nil {
		return
	}
	p.running.Go(panics.From(p.Fail, p.listenUDP))
	b := make([]byte, probeSize)
	p.running.Go(panics.From(p.Fail, func() { p.send(0, &p.udps, func() error { return p.sendUDP(b) }) }))
}

func (p *prober) now() time.Duration { return time.Since(p.start) }

// hold stops the probes until the path's rate is known: the first ones under a load would take
// half of a path of 100 kbit/s.
func (p *prober) hold() { p.change(plan{gap: never}) }

// open makes the probes count from now on, even if the path's rate is still unknown.
func (p *prober) open() {
	next := *p.plan.Load()
	next.window, next.opened = true, p.now()
	if next.gap == never {
		bits := p.lone(&next)
		next.gap, next.double = max(pace(p.link, bits), firstGap), true
	}
	p.change(next)
}

// firstGap is the first gap in a window until the path's rate is known, from an answer or from
// the first interval of the load: a window of 1 s has enough probes for a median.
const firstGap = 200 * time.Millisecond

// lone selects the one kind that was answered without load, and returns the bits of its probe;
// both kinds if there was no time without load.
func (p *prober) lone(next *plan) float64 {
	switch idle := p.udps.of(idling); {
	case idle.sent == 0:
		return udpBits + tcpBits
	case int64(idle.times.Count())*2 < idle.sent:
		next.mute = &p.udps
		return tcpBits
	}
	next.mute = &p.tcps
	return udpBits
}

// slow limits the probes under load to their share of rate, the path's rate so far, and of the
// link; but at least two are sent in a window of known length. If both kinds would be rare, it
// sends only the one that was answered without load.
func (p *prober) slow(rate units.BitRate) {
	if p.link > 0 {
		rate = min(rate, p.link)
	}
	next := *p.plan.Load()
	next.gap, next.mute, next.double = pace(rate, udpBits+tcpBits), nil, false
	if next.gap > mostPace {
		next.gap = pace(rate, p.lone(&next))
	}
	if p.spec.Duration > 0 {
		next.gap = min(next.gap, max(p.spec.Duration/(leastProbes+1), mostPace))
	}
	p.change(next)
}

func (p *prober) change(next plan) {
	if p.plan.Load().gap == never {
		next.since = p.now()
	}
	p.plan.Store(&next)
}

// leastProbes are sent in a window, whatever they take.
const leastProbes = 2

// due returns when to send the next probe of a kind, whose last one was sent at last, or none
// if negative. In the window no more are sent than its gap allows since it opened, so that
// later ones wait if earlier ones were too many.
func (l *plan) due(own *tracker, last, offset time.Duration) time.Duration {
	sent := time.Duration(own.sent(loading))
	switch {
	case l.mute == own:
		return never
	case l.window && sent == 0:
		return l.opened
	case l.double:
		return l.opened + l.gap*(1<<min(sent, 20)-1)
	case l.window:
		return max(max(last, l.since)+l.gap, l.opened+min(sent+1, never/l.gap)*l.gap)
	case last < 0:
		return offset
	}
	return max(last, l.since) + l.gap
}

// send calls once for each planned probe of a kind, until quit.
func (p *prober) send(offset time.Duration, own *tracker, once func() error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for last := time.Duration(-1); ; {
		planned := p.plan.Load()
		due := planned.due(own, last, offset)
		now := p.now()
		if late := now - due; late > planned.gap {
			// Sent now, they would all measure this moment.
			missed := late / planned.gap
			due += missed * planned.gap
			p.skipped.Add(int64(missed))
		}
		timer.Reset(min(due-now, leastPace)) // the plan may change
		select {
		case <-timer.C:
		case <-p.quit:
			return
		}
		if due-now > leastPace || p.plan.Load() != planned {
			continue
		}
		if last = due; once() != nil {
			return
		}
	}
}

func (p *prober) sendTCP() error {
	p.tcps.send(p.now())
	return p.say(letterProbe)
}

// say sends one letter.
func (p *prober) say(letter byte) error {
	_, err := p.tcp.Write([]byte{letter})
	return err
}

// sendUDP sends a datagram; one that the kernel does not accept is lost.
func (p *prober) sendUDP(b []byte) error {
	datagram(b, p.cookie, p.udps.send(p.now()))
	if _, err := p.udp.Write(b); errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listenTCP handles what the far end returns, in the order in which it was sent.
func (p *prober) listenTCP() {
	defer close(p.gone)
	b := make([]byte, 256)
	var seq uint64
	begun := false
	for {
		n, err := p.tcp.Read(b)
		at := p.now()
		for _, letter := range b[:n] {
			switch letter {
			case letterProbe:
				p.tcps.answer(seq, at)
				seq++
			case letterLoad:
				if !begun {
					begun = true
					close(p.loadAck)
				}
			case letterEnd:
			default:
				p.reason = fmt.Errorf("the far end sends %q back", letter)
				return
			}
		}
		if err != nil {
			p.reason = err
			return
		}
	}
}

func (p *prober) listenUDP() {
	b := make([]byte, probeSize+1) // one more byte reveals longer datagrams
	for faults := 0; faults < maxFaults; {
		n, err := p.udp.Read(b)
		at := p.now()
		if err != nil {
			if p.over.Load() {
				return
			}
			faults++
			continue
		}
		faults = 0
		if seq, arrived, ok := parseDatagram(b[:n], p.cookie); ok {
			p.udps.answer(seq, at)
			if p.began.Load() > 0 && arrived > 0 {
				p.reported.Store(arrived)
				select {
				case p.heard <- struct{}{}:
				default:
				}
			}
		}
	}
}

// silence stops sending.
func (p *prober) silence() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
}

// end stops everything and waits for it.
func (p *prober) end() {
	p.silence()
	p.over.Store(true)
	p.wake()
	p.running.Wait()
}

// enter makes later probes belong to ph.
func (p *prober) enter(ph phase) {
	p.tcps.enter(ph)
	p.udps.enter(ph)
}

// shortTail is the shortest wait for the last probes.
const shortTail = 200 * time.Millisecond

// tail returns how long an answer may take before its probe counts as lost: four times as long
// as the slowest so far.
func (p *prober) tail() time.Duration {
	slowest := max(p.tcps.slowest(), p.udps.slowest())
	return min(max(4*slowest, shortTail), p.engine.patience)
}

// waiting reports whether answers may still arrive.
func (p *prober) waiting() bool {
	since := p.now() - p.tail()
	return p.tcps.waiting(since) || p.udps.waiting(since)
}
