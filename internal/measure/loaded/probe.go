package loaded

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/rescue"
)

// past is a deadline that ends every call on a connection.
var past = time.Unix(1, 0)

// maxFaults is how many errors one after the other end the reading of
// datagrams. Single ones come from ICMP: nobody listened yet, or no route.
const maxFaults = 1000

// prober is the near end's sending and receiving.
type prober struct {
	*test
	start   time.Time
	quit    chan struct{} // closed to stop sending
	running sync.WaitGroup
	tcps    tracker
	udps    tracker

	loadAck chan struct{} // closed when the far end has begun the load
	gone    chan struct{} // closed when the far end's connection ended
	reason  error         // why, set before gone is closed

	gap     atomic.Int64 // between two probes of a kind, ns
	skipped atomic.Int64 // probes that were not sent, because this end was held up
}

func newProber(t *test) *prober {
	p := &prober{test: t, quit: make(chan struct{}), loadAck: make(chan struct{}), gone: make(chan struct{})}
	p.gap.Store(int64(min(t.pace, mostPace)))
	return p
}

// begin starts the probes. The two kinds take turns.
func (p *prober) begin() {
	p.start = time.Now()
	p.running.Go(rescue.From(p.Fail, p.listenTCP))
	p.running.Go(rescue.From(p.Fail, func() { p.send(time.Duration(p.gap.Load())/2, p.sendTCP) }))
	if p.udp == nil {
		return
	}
	p.running.Go(rescue.From(p.Fail, p.listenUDP))
	b := make([]byte, probeSize)
	p.running.Go(rescue.From(p.Fail, func() { p.send(0, func() error { return p.sendUDP(b) }) }))
}

func (p *prober) now() time.Duration { return time.Since(p.start) }

// slow has the probes under load take no more than their share of rate, which the path
// was seen to carry, and of the link; but some are sent in any window.
func (p *prober) slow(rate units.BitRate) {
	gap := max(pace(rate), p.pace)
	p.gap.Store(int64(min(gap, max(p.spec.Duration/leastProbes, mostPace))))
}

// leastProbes are sent of each kind in a window, whatever they take.
const leastProbes = 2

// send calls once at the pace, the first time after offset, until quit.
func (p *prober) send(offset time.Duration, once func() error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for last := time.Duration(-1); ; {
		gap := time.Duration(p.gap.Load())
		due := offset
		if last >= 0 {
			due = last + gap
		}
		now := p.now()
		if late := now - due; late > gap {
			// Sent now, they would all tell of this moment.
			missed := late / gap
			due += missed * gap
			p.skipped.Add(int64(missed))
		}
		timer.Reset(min(due-now, mostPace)) // the pace may change
		select {
		case <-timer.C:
		case <-p.quit:
			return
		}
		if due-now > mostPace {
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

// sendUDP sends a datagram; what the kernel does not take is lost.
func (p *prober) sendUDP(b []byte) error {
	datagram(b, p.cookie, p.udps.send(p.now()))
	if _, err := p.udp.Write(b); errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// listenTCP takes what the far end sends back, in the order in which it was
// sent.
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
	b := make([]byte, probeSize+1) // longer ones show
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
		if seq, ok := parseDatagram(b[:n], p.cookie); ok {
			p.udps.answer(seq, at)
		}
	}
}

// silence ends the sending.
func (p *prober) silence() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
}

// end ends everything and waits for it.
func (p *prober) end() {
	p.silence()
	p.over.Store(true)
	p.wake()
	p.running.Wait()
}

// enter makes what is sent from now on belong to ph.
func (p *prober) enter(ph phase) {
	p.tcps.enter(ph)
	p.udps.enter(ph)
}

// shortTail is how long the last probes are waited for at least.
const shortTail = 200 * time.Millisecond

// tail is how long an answer may take before its probe counts as lost: four
// times as long as the slowest so far.
func (p *prober) tail() time.Duration {
	slowest := max(p.tcps.slowest(), p.udps.slowest())
	return min(max(4*slowest, shortTail), p.engine.patience)
}

// waiting reports whether answers may still come.
func (p *prober) waiting() bool {
	since := p.now() - p.tail()
	return p.tcps.waiting(since) || p.udps.waiting(since)
}
