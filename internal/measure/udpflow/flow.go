package udpflow

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/hist"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// flow is one direction at one end: its streams, and the sampler's data. Only the sampler's
// goroutine uses it.
type flow struct {
	run.Part
	bounds    bounds
	conns     []*datagram.Conn
	out       []*outbound // of a sender
	in        []*inbound  // of a receiver
	size      int         // payload of a datagram, at the sender
	running   sync.WaitGroup
	answering atomic.Bool // the receiver's window is over

	halted     bool
	dropped    int64 // by the receiver's socket before the run
	countDrops bool
}

func newFlow(d model.Direction, role model.Role, spec model.Flow, b bounds) *flow {
	f := &flow{Part: run.Part{Direction: d, Role: role, Spec: spec, Datagrams: true}, bounds: b}
	f.Count, f.Tell, f.Progress, f.Report = f.count, f.tell, f.progress, f.report
	f.Closed = func() { f.answering.Store(true) }
	return f
}

// prepare prepares the streams.
func (f *flow) prepare() error {
	f.Prepare(len(f.conns))
	for i, c := range f.conns {
		var err error
		if f.Role == model.Sender {
			err = f.prepareOut(i, c)
		} else {
			err = f.prepareIn(i, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// useKeys passes the keys of the reports to the streams.
func (f *flow) useKeys(l *line) {
	for _, s := range f.out {
		s.key = l.mine
	}
	for _, s := range f.in {
		s.key = l.theirs
	}
}

func (f *flow) prepareOut(i int, c *datagram.Conn) error {
	u := settings(f.Spec)
	n := len(f.conns)
	if f.size = int(f.Spec.Block); f.size == 0 {
		f.size = block(c)
	}
	s := &outbound{
		conn: c, number: uint16(i), omit: f.Spec.Omit, length: f.Spec.Duration, bounds: f.bounds,
		quota: share(f.Spec, f.size, i),
	}
	o := datagram.SenderOptions{
		Size: f.size, Gap: gap(u.Rate, n, f.size), Stamp: s.stamp, Before: s.step,
	}
	// The streams take turns.
	o.Offset = time.Duration(o.Gap * float64(i) / float64(n))
	if u.Pacing == udp.PacingKernel {
		o.Pacing = datagram.ByKernel
	}
	if s.quota > 0 {
		o.Most = s.most
	}
	if u.Rate > 0 && o.Pacing == datagram.ByClock {
		s.gaps = new(hist.Recorder)
		o.Gaps = s.gaps
	}
	var err error
	if s.sender, err = datagram.NewSender(c, o); err != nil {
		return err
	}
	f.out = append(f.out, s)
	return nil
}

// share returns how many datagrams stream i sends: 0, unlimited, without a byte count;
// otherwise an equal part of the number needed, the first streams one more for the remainder.
// Every stream sends at least one.
func share(spec model.Flow, size, i int) int64 {
	if spec.Bytes == 0 {
		return 0
	}
	n, streams := (int64(spec.Bytes)+int64(size)-1)/int64(size), int64(spec.Streams)
	part := n / streams
	if int64(i) < n%streams {
		part++
	}
	return max(1, part)
}

// hot is how long a receiver polls before it sleeps: waking it costs time, and if both ends
// share a machine also costs the sender.
const hot = 50 * time.Microsecond

func (f *flow) prepareIn(i int, c *datagram.Conn) error {
	s := newInbound(c, i, len(f.conns), &f.answering)
	size := cmp.Or(int(f.Spec.Block), ethernetMTU)
	var err error
	s.receiver, err = datagram.NewReceiver(c, datagram.ReceiverOptions{
		Size: max(size, endLen), Handle: s.handle, After: s.publish, Spin: hot,
	})
	if err != nil {
		return err
	}
	f.in = append(f.in, s)
	return nil
}

// launch starts the threads. It calls fail for a bug in one.
func (f *flow) launch(start time.Time, fail func(error)) {
	f.dropped, f.countDrops = f.drops()
	for _, s := range f.out {
		f.running.Go(panics.From(fail, func() { s.run(start) }))
	}
	for _, s := range f.in {
		f.running.Go(panics.From(fail, func() { s.run(start) }))
	}
}

// halt ends the threads and waits for them.
func (f *flow) halt() {
	if f.halted {
		return
	}
	f.halted = true
	for _, s := range f.out {
		s.sender.Stop()
	}
	for _, s := range f.in {
		s.receiver.Stop()
	}
	f.running.Wait()
}

// drops returns how many datagrams the sockets have dropped.
func (f *flow) drops() (n int64, known bool) {
	for _, c := range f.conns {
		d, ok := c.Dropped().Get()
		if !ok {
			return 0, false
		}
		n += d
	}
	return n, true
}

// count reads the counters.
func (f *flow) count(r *run.Reading) {
	for i, s := range f.out {
		n := s.sender.Sent.Load()
		r.Set(i, n*int64(f.size))
		r.Datagrams += n
	}
	for i, s := range f.in {
		r.Set(i, s.bytes.Load())
		r.Datagrams += s.count.Load()
		r.Missing += s.missing.Load()
	}
}

// close frees the sockets.
func (f *flow) close() error {
	errs := lists.Each(f.conns, func(c *datagram.Conn) error { return c.Close() })
	return errors.Join(errs...)
}
