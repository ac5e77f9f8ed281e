package peer

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/measure/datagram"
	"linerate/internal/measure/udpstp"
	"linerate/internal/panics"
)

// flow is one flow of a test at one end, from its activation.
type flow struct {
	conn    *net.UDPConn
	peer    netip.AddrPort
	version uint16
	of      udpstp.Activation // as both ends have agreed
	jumbo   bool
	regular bool // packets of 1500 bytes
	// patience is the timeout of the peer; 0 is the protocol's.
	patience time.Duration
	// search is the server's search; nil at the client.
	search *udpstp.Search
	// charge, if not nil, counts the bytes sent since the last call and the time, and returns
	// an error at the limit. most bounds what may arrive; 0 is no limit.
	charge func(sent int64, took time.Duration) error
	most   float64 // bit/s of payload
	// ended is called with each complete sub-interval, and with what this end sent in it, by
	// one goroutine.
	ended func(udpstp.SubInterval, amount)

	load loader
	mu   sync.Mutex // guards what follows
	in   *udpstp.Receiver
	stop bool // outgoing PDUs announce the end of the test
	bad  int  // trial intervals in which too much arrived

	over      chan struct{}
	stopOnce  sync.Once
	reason    error // why the server ends it early
	confirmed bool  // the peer has agreed to the end
	seen      uint32
	heard     bool   // a status PDU has arrived
	before    amount // at the end of the last sub-interval
	rttMin    uint32 // ms, udpstp.None
	began     time.Time
	took      time.Duration
}

// Reasons for ending a flow early.
var (
	errSilent  = errors.New("the peer went silent")
	errLeft    = errors.New("the client ended the test early")
	errTooMuch = errors.New("the client sends far more than it was told to")
)

const (
	lookEvery   = 50 * time.Millisecond
	chargeEvery = time.Second
	// sendBuffer is large, so that excess load is lost on the path instead of here, as with
	// obudpst (9.0.0, DEF_SOCKET_BUF).
	sendBuffer = 1_024_000
	// mostLoad is the longest load PDU; a longer one is cut, but counts with its stated length.
	mostLoad = 9000
	// mostBad is for how many consecutive trial intervals more than twice the rate may arrive.
	mostBad = 5
)

// sends reports whether this end sends load.
func (f *flow) sends() bool { return f.of.Upstream == (f.search == nil) }

// next returns the rate of the search's current row.
func (f *flow) next() udpstp.Rate { return udpstp.Row(f.search.Row(), f.jumbo, f.regular) }

// open prepares f for datagrams from its peer.
func (f *flow) open() {
	// The system grants what it can.
	_ = f.conn.SetReadBuffer(int(datagram.DefaultRecvBuffer))
	_ = f.conn.SetWriteBuffer(sendBuffer)
	if f.peer.Addr().Is6() && !f.peer.Addr().Is4In6() {
		f.load.shrink = uint32(udpstp.IPHeaders(true) - udpstp.IPHeaders(false))
	}
	f.load.write = f.write
	f.load.heard = time.Now()
	f.over, f.rttMin = make(chan struct{}), udpstp.None
	f.in = udpstp.NewReceiver(f.of, f.load.heard)
}

func (f *flow) write(b []byte) error {
	_, err := f.conn.WriteToUDPAddrPort(b, f.peer)
	return err
}

// run measures until the test is over at both ends. first, if not nil, is a PDU that arrived
// before.
func (f *flow) run(ctx context.Context, first []byte) error {
	f.began = time.Now()
	defer context.AfterFunc(ctx, func() { _ = f.conn.SetReadDeadline(time.Unix(1, 0)) })()
	var sending panics.Group
	sending.Go(func() {
		if f.sends() {
			f.load.run(f.over, f.search == nil)
		} else {
			f.tell()
		}
		if f.search == nil { // it has announced that it agrees
			f.finish()
		}
	})
	err := f.read(ctx, first)
	f.finish()
	sending.Wait()
	f.took = time.Since(f.began)
	if f.charge != nil {
		_ = f.charge(f.load.bytes.Load(), f.took) // it has ended anyway
	}
	return err
}

// finish stops the sending goroutines.
func (f *flow) finish() { f.stopOnce.Do(func() { close(f.over) }) }

// finished reports whether finish was called.
func (f *flow) finished() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// read handles incoming datagrams until the test is over.
func (f *flow) read(ctx context.Context, first []byte) error {
	now := time.Now()
	if first != nil {
		f.take(first, now)
	}
	looked, charged := time.Time{}, now
	for buf := make([]byte, mostLoad+1); ; {
		if now.Sub(looked) >= lookEvery/2 {
			looked = now
			if err := f.conn.SetReadDeadline(now.Add(lookEvery)); err != nil {
				return err
			}
			if ctx.Err() != nil {
				f.leave()
				return context.Cause(ctx)
			}
			if done, err := f.ends(now); done {
				return err
			}
			if f.charge != nil && now.Sub(charged) >= chargeEvery {
				if err := f.charge(f.load.bytes.Load(), now.Sub(f.began)); err != nil {
					f.cut(err)
				}
				charged = now
			}
		}
		n, from, err := f.conn.ReadFromUDPAddrPort(buf)
		now = time.Now()
		switch {
		case err == nil && plainPort(from) == plainPort(f.peer):
			f.take(buf[:min(n, mostLoad)], now)
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // nothing arrived, or on Windows the ICMP error of an earlier datagram
			looked = time.Time{}
		}
	}
}

// ends reports whether the test is over, and the error of an irregular end.
func (f *flow) ends(now time.Time) (bool, error) {
	f.load.mu.Lock()
	silent, at := now.Sub(f.load.heard), now.Sub(f.began)
	f.load.mu.Unlock()
	server := f.search != nil
	if server && at >= f.of.Length+udpstp.Grace {
		f.halt()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.finished(), f.confirmed:
		return true, f.reason
	case !server && at >= f.of.Length+cmp.Or(f.patience, udpstp.Silence):
		return true, nil // the server's final PDU was lost
	case silent < cmp.Or(f.patience, udpstp.Silence):
		return false, nil
	case f.stop: // the confirmation was lost
		return true, f.reason
	}
	return true, errSilent
}

// halt makes all outgoing PDUs announce the end of the test.
func (f *flow) halt() {
	f.mu.Lock()
	f.stop = true
	f.mu.Unlock()
	f.load.stop()
}

// cut ends the test early, at the server.
func (f *flow) cut(err error) {
	f.mu.Lock()
	if f.reason == nil {
		f.reason = err
	}
	f.mu.Unlock()
	f.halt()
}

// leaveTime is how long a cancelled client has to announce it: the longest trial interval.
const leaveTime = 250 * time.Millisecond

// leave announces that a client leaves.
func (f *flow) leave() {
	if f.search != nil {
		return
	}
	f.halt()
	select {
	case <-f.over:
	case <-time.After(leaveTime):
	}
}

// take handles a datagram of the peer.
func (f *flow) take(b []byte, now time.Time) {
	if f.sends() {
		if s, err := udpstp.ParseStatus(b, f.version); err == nil {
			f.status(s, now)
		}
		return
	}
	l, err := udpstp.ParseLoad(b)
	if err != nil {
		return
	}
	f.load.mu.Lock()
	f.load.heard = now
	f.load.mu.Unlock()
	if f.agree(l.Action) && f.search != nil {
		return
	}
	f.mu.Lock()
	if !f.stop || f.search != nil {
		f.in.Take(l, now)
	}
	f.mu.Unlock()
}

// agree handles the peer's action, and reports whether the peer has announced the end.
func (f *flow) agree(a udpstp.Action) bool {
	if a == udpstp.Testing {
		return false
	}
	if f.search == nil {
		f.halt()
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.confirmed = true; !f.stop && f.reason == nil {
		f.reason = errLeft
	}
	return true
}

// status handles a status PDU.
func (f *flow) status(s udpstp.Status, now time.Time) {
	f.agree(s.Action)
	rate := s.Rate
	switch {
	case f.search != nil:
		f.search.Next(s)
		rate = f.next()
	case rate.Validate() != nil || s.Action != udpstp.Testing:
		f.load.mu.Lock()
		rate = f.load.rate
		f.load.mu.Unlock()
	}
	f.load.feedback(s, rate, now)
	f.news(s)
}

// news reports a complete sub-interval. The first status begins the first one.
func (f *flow) news(s udpstp.Status) {
	f.rttMin = min(f.rttMin, s.RTTMin)
	ended := s.SubIntervals > f.seen
	if f.heard && !ended {
		return
	}
	now, before := f.load.total(), f.before
	if f.heard, f.before = true, now; ended {
		f.seen = s.SubIntervals
		f.ended(s.Saved, amount{now.datagrams - before.datagrams, now.bytes - before.bytes, now.refused - before.refused})
	}
}

// tell sends a status PDU after each trial interval until the test is over.
func (f *flow) tell() {
	tick := time.NewTicker(f.of.Trial)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.over:
			return
		}
		if stopped := f.report(time.Now()); stopped && f.search == nil {
			return
		}
	}
}

// report sends a status PDU, and reports whether it announced the end of the test.
func (f *flow) report(now time.Time) (stopped bool) {
	f.load.mu.Lock()
	stalled := now.Sub(f.load.heard) >= udpstp.Stall
	f.load.mu.Unlock()
	f.mu.Lock()
	stopped = f.stop
	if !f.in.Begun() && !stopped {
		f.mu.Unlock()
		return false
	}
	s := f.in.Status(now)
	if s.Stalled = stalled; stopped {
		s.Action = udpstp.Stopped
	}
	if f.search != nil {
		f.search.Next(s)
		s.Rate = f.next()
		f.watch(s)
	}
	s.Mode = f.of.Mode
	f.mu.Unlock()
	if !stopped {
		f.news(s)
	}
	_ = f.write(s.Append(nil, f.version)) // the next one counts a lost one
	return stopped
}

// watch ends a flow in which far more arrives than the server requested.
func (f *flow) watch(s udpstp.Status) {
	if f.most <= 0 || s.Micros == 0 || float64(s.Bytes)*8e6/float64(s.Micros) < 2*f.most {
		f.bad = 0
		return
	}
	if f.bad++; f.bad >= mostBad {
		f.stop, f.reason = true, errTooMuch
	}
}
