package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"sync"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/goruntime"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// udpTest is one direction of a UDP test at one end, as an engine.Test.
//
// A sender with a duration sends for Omit and Duration, one without until it is stopped or has
// sent Bytes. A receiver's window opens at Omit; it closes after the duration, or without one
// when it is stopped.
type udpTest struct {
	*engine.Life
	host    model.Host
	way     *way
	part    run.Part
	streams []*udpStream
	size    int     // bytes of a datagram
	rate    float64 // bit/s per stream; 0 is as fast as possible
	open    bool    // has no duration
	running sync.WaitGroup
}

// prepareUDP creates the way's test from connected sockets, which it owns even if it fails.
func prepareUDP(l *way, host model.Host, conns []*net.UDPConn, p iperf3.Params, open bool) (*udpTest, error) {
	t := &udpTest{
		Life: engine.NewLife(), host: host, way: l, size: int(p.Length), rate: float64(p.BitsPerSecond), open: open,
		part: run.Part{Direction: l.direction, Role: l.role, Spec: l.spec, Datagrams: true, Endless: open},
	}
	t.part.Spec.Interval = cmp.Or(l.spec.Interval, time.Second)
	t.part.Count, t.part.Tell = t.count, t.tell
	t.part.Prepare(len(conns))
	u, _ := udp.Of(l.spec)
	for i, c := range conns {
		conn, err := datagram.Attach(c, datagram.Options{
			Plain: u.Plain, SendBuffer: l.spec.Window, RecvBuffer: l.spec.Window,
		})
		if err == nil {
			s := &udpStream{conn: conn, wide: p.WideCounters}
			t.streams = append(t.streams, s)
			err = t.prepare(s, i, len(conns))
		} else {
			_ = c.Close() // it may be closed already
		}
		if err != nil {
			for _, c := range conns[i+1:] {
				err = errors.Join(err, c.Close())
			}
			return nil, errors.Join(fmt.Errorf("take over UDP socket %d: %w", i+1, err), t.Close())
		}
	}
	return t, nil
}

// prepare prepares s to send or receive as number i of n.
func (t *udpTest) prepare(s *udpStream, i, n int) error {
	var err error
	if t.way.role == model.Receiver {
		s.tally = datagram.NewTally(1, max(memory/n, datagram.MinMemory))
		s.open, s.shut = t.way.spec.Omit, math.MaxInt64
		if s.open == 0 {
			s.open = math.MinInt64 // datagrams before the clock started count too
		}
		if !t.open && t.way.spec.Bytes == 0 {
			s.shut = t.way.spec.Omit + t.way.spec.Duration
		}
		s.receive, err = datagram.NewReceiver(s.conn, datagram.ReceiverOptions{
			Size: t.size, Handle: s.handle, After: s.publish,
		})
		return err
	}
	o := datagram.SenderOptions{Size: t.size, First: 1}
	if t.rate > 0 {
		o.Gap = float64(t.size) * 8e9 / t.rate
		// The streams take turns.
		o.Offset = time.Duration(o.Gap * float64(i) / float64(n))
	}
	end := t.way.spec.Omit + t.way.spec.Duration
	o.Before = func(at time.Duration, _ int64) (time.Duration, bool) { return 0, t.open || at < end }
	if quota := t.quota(i, n); quota > 0 {
		o.Before = func(_ time.Duration, next int64) (time.Duration, bool) { return 0, next <= quota }
		o.Most = func(next int64) int64 { return quota + 1 - next }
	}
	o.Stamp = func(b []byte, seq int64, at time.Duration) {
		iperf3.DatagramHeader{
			Seconds: uint32(at / time.Second), Microseconds: uint32(at % time.Second / time.Microsecond), Sequence: uint64(seq),
		}.Put(b, s.wide)
	}
	if u, _ := udp.Of(t.way.spec); u.Pacing == udp.PacingKernel && o.Gap > 0 {
		o.Pacing = datagram.ByKernel
	}
	s.send, err = datagram.NewSender(s.conn, o)
	return err
}

// quota returns how many datagrams stream i of n sends of a byte count: whole ones, at least
// the requested bytes; 0 is no limit.
func (t *udpTest) quota(i, n int) int64 {
	if t.way.spec.Bytes == 0 {
		return 0
	}
	all := (int64(t.way.spec.Bytes) + int64(t.size) - 1) / int64(t.size)
	return max(1, (all+int64(n-1-i))/int64(n))
}

// Close implements engine.Test. It waits for Run.
func (t *udpTest) Close() error {
	return t.End(func() error {
		errs := lists.Each(t.streams, func(s *udpStream) error { return s.conn.Close() })
		return errors.Join(errs...)
	})
}

// Run implements engine.Test. It may be called once.
func (t *udpTest) Run(ctx context.Context, emit func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return model.EndReport{}, err
	}
	defer end(&err)
	threads := 0
	for _, s := range t.streams {
		threads += s.conn.Threads()
	}
	hold := goruntime.Begin(threads)
	defer hold.End()
	ended := make(chan func(), 1)
	r := &run.Run{
		Meter: run.Meter{Host: t.host, Spec: t.part.Spec, Emit: emit, Hold: hold},
		Life:  t.Life, Parts: []*run.Part{&t.part}, Halt: t.halt, Ended: ended,
	}
	r.Launch()
	t.launch(r.Start, ended)
	r.Loop(ctx)
	t.halt()
	return t.report(r.Meter.Report(t.streams[0].conn.Waiting()))
}

// launch starts the threads. ended gets the cleanup to run when all have ended.
func (t *udpTest) launch(start time.Time, ended chan<- func()) {
	for _, s := range t.streams {
		t.running.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s.err = panics.Call(func() error {
				if s.send != nil {
					s.send.Start(start)
					return s.send.Run()
				}
				s.receive.Start(start)
				defer s.publish(0)
				return s.receive.Run()
			})
		})
	}
	go func() {
		t.running.Wait()
		ended <- func() { t.part.Finish("ended") }
	}()
}

// halt ends the threads and waits for them.
func (t *udpTest) halt() {
	for _, s := range t.streams {
		if s.send != nil {
			s.send.Stop()
		} else {
			s.receive.Stop()
		}
	}
	t.running.Wait()
}

// received returns how many bytes have arrived.
func (t *udpTest) received() int64 {
	var sum int64
	for _, s := range t.streams {
		sum += s.total.Load()
	}
	return sum
}

// count reads the counters.
func (t *udpTest) count(r *run.Reading) {
	for i, s := range t.streams {
		if s.send != nil {
			n := s.send.Sent.Load()
			r.Datagrams += n
			r.Set(i, n*int64(t.size))
			continue
		}
		r.Set(i, s.total.Load())
		r.Datagrams += s.came.Load()
		r.Missing += s.lacks.Load()
	}
}

// tell adds the jitter of an interval.
func (t *udpTest) tell(add run.Add) {
	if t.way.role == model.Sender {
		return
	}
	var jitter float64
	for _, s := range t.streams {
		jitter += time.Duration(s.jitter.Load()).Seconds()
	}
	add(model.Jitter, jitter/float64(len(t.streams)), "")
}

// sentBefore returns how many datagrams stream i sent before the window.
func (t *udpTest) sentBefore(i int) int64 { return t.part.Open.Each[i] / int64(t.size) }
