package peer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/datagram"
	"linerate/internal/measure/iperf3"
	"linerate/internal/measure/quiet"
	"linerate/internal/measure/sockio"
	"linerate/internal/rescue"
)

// udpTest is one direction of a UDP test at one end, as an engine.Test.
//
// A sender with a duration sends for Omit and Duration, one without until it is
// stopped or has sent Bytes. A receiver's window opens at Omit; where it has a
// duration it closes by itself, else when it is stopped.
type udpTest struct {
	host     model.Host
	way      *way
	streams  []*udpStream
	size     int     // bytes of a datagram
	rate     float64 // bit/s per stream; 0 is as fast as possible
	open     bool    // no end by itself
	stop     chan struct{}
	once     sync.Once
	ready    chan struct{}
	start    time.Time
	snapshot udpSnapshot // when the window opened

	mu   sync.Mutex
	ran  bool
	shut bool
	over chan struct{} // closed when Run has returned
}

// udpSnapshot are a direction's counters over all streams.
type udpSnapshot struct {
	at                     time.Duration
	bytes, datagrams, lost int64
	cpu                    sockio.CPUTime
	sent                   []int64 // of a sender, datagrams per stream
}

// prepareUDP makes the way's test of connected sockets, which it owns also
// when it fails.
func prepareUDP(l *way, host model.Host, conns []*net.UDPConn, p iperf3.Params, open bool) (*udpTest, error) {
	t := &udpTest{
		host: host, way: l, size: int(p.Length), rate: float64(p.BitsPerSecond), open: open,
		stop: make(chan struct{}), ready: make(chan struct{}), over: make(chan struct{}),
	}
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

// prepare makes s ready to send or receive as number i of n.
func (t *udpTest) prepare(s *udpStream, i, n int) error {
	var err error
	if t.way.role == model.Receiver {
		s.tally = datagram.NewTally(1, max(memory/n, datagram.MinMemory))
		s.open, s.shut = t.way.spec.Omit, math.MaxInt64
		if s.open == 0 {
			s.open = math.MinInt64 // what came before the clock ran counts too
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

// quota is how many datagrams stream i of n sends of a byte count: whole ones,
// at least as many bytes as were asked for; 0 is no bound.
func (t *udpTest) quota(i, n int) int64 {
	if t.way.spec.Bytes == 0 {
		return 0
	}
	all := (int64(t.way.spec.Bytes) + int64(t.size) - 1) / int64(t.size)
	return max(1, (all+int64(n-1-i))/int64(n))
}

// Measured implements engine.Test: it is closed when the clock runs.
func (t *udpTest) Measured() <-chan struct{} { return t.ready }

// Stop implements engine.Test.
func (t *udpTest) Stop() { t.once.Do(func() { close(t.stop) }) }

// Close implements engine.Test. It waits for Run.
func (t *udpTest) Close() error {
	t.Stop()
	t.mu.Lock()
	ran, again := t.ran, t.shut
	t.shut = true
	t.mu.Unlock()
	if ran {
		<-t.over
	}
	if again {
		return nil
	}
	var errs []error
	for _, s := range t.streams {
		errs = append(errs, s.conn.Close())
	}
	return errors.Join(errs...)
}

// Run implements engine.Test. It may be called once.
func (t *udpTest) Run(ctx context.Context, emit func([]model.Sample)) (model.EndReport, error) {
	t.mu.Lock()
	if t.ran || t.shut {
		t.mu.Unlock()
		return model.EndReport{}, errors.New("run test: it has been run or closed before")
	}
	t.ran = true
	t.mu.Unlock()
	defer close(t.over)
	threads := 0
	for _, s := range t.streams {
		threads += s.conn.Threads()
	}
	defer quiet.Begin(threads).End()
	ended := t.launch()
	t.sample(ctx, emit, ended)
	for _, s := range t.streams {
		if s.send != nil {
			s.send.Stop()
		} else {
			s.receive.Stop()
		}
	}
	<-ended
	return t.report()
}

// launch starts the threads. The channel is closed when all have ended.
func (t *udpTest) launch() <-chan struct{} {
	t.snapshot = t.read() // nothing has been sent yet
	t.snapshot.at = 0
	t.start = time.Now()
	ended := make(chan struct{})
	var all sync.WaitGroup
	for _, s := range t.streams {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s.err = rescue.Call(func() error {
				if s.send != nil {
					s.send.Start(t.start)
					return s.send.Run()
				}
				s.receive.Start(t.start)
				defer s.publish(0)
				return s.receive.Run()
			})
		})
	}
	go func() {
		all.Wait()
		close(ended)
	}()
	close(t.ready)
	return ended
}

// sample emits until the test is over.
func (t *udpTest) sample(ctx context.Context, emit func([]model.Sample), ended <-chan struct{}) {
	spec := t.way.spec
	step := spec.Interval
	if step == 0 {
		step = time.Second
	}
	end := time.Duration(math.MaxInt64)
	if !t.open && spec.Bytes == 0 {
		end = spec.Omit + spec.Duration
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	prev := t.snapshot
	for planned := time.Duration(0); planned < end; {
		planned = t.next(max(planned, prev.at), step, end)
		timer.Reset(time.Until(t.start.Add(planned)))
		over := false
		select {
		case <-timer.C:
		case <-ended:
			over = true
		case <-t.stop:
			over = true
		case <-ctx.Done():
			over = true
		}
		cur := t.read()
		if cur.at-prev.at >= step/10 {
			emit(t.samples(prev, cur))
			prev = cur
		}
		if cur.at >= spec.Omit && t.snapshot.at < spec.Omit {
			t.snapshot = cur
		}
		if over {
			return
		}
	}
}

// next is when the interval that begins at at ends: whole ones since the window
// opened, and the window's edges.
func (t *udpTest) next(at, step, end time.Duration) time.Duration {
	omit := t.way.spec.Omit
	if at < omit {
		return min(omit, (at/step+1)*step)
	}
	return min(end, omit+((at-omit+step/10)/step+1)*step)
}

// received is how many bytes have come.
func (t *udpTest) received() int64 {
	var sum int64
	for _, s := range t.streams {
		sum += s.total.Load()
	}
	return sum
}

// read takes a snapshot.
func (t *udpTest) read() udpSnapshot {
	out := udpSnapshot{at: time.Since(t.start)}
	out.cpu, _ = sockio.ProcessCPU()
	for _, s := range t.streams {
		if s.send != nil {
			n := s.send.Sent.Load()
			out.sent = append(out.sent, n)
			out.datagrams += n
			out.bytes += n * int64(t.size)
			continue
		}
		out.bytes += s.total.Load()
		out.datagrams += s.came.Load()
		out.lost += s.lacks.Load()
	}
	return out
}

// samples are those of the interval between two snapshots.
func (t *udpTest) samples(prev, cur udpSnapshot) []model.Sample {
	var out []model.Sample
	length := cur.at - prev.at
	add := func(d model.Direction, m model.Metric, v float64) {
		out = append(out, model.Sample{
			Host: t.host, Direction: d, Metric: m, Value: v, Start: prev.at, Length: length,
			Omitted: prev.at < t.way.spec.Omit,
		})
	}
	rate := float64(cur.bytes-prev.bytes) * 8 / length.Seconds()
	d := t.way.direction
	if t.way.role == model.Sender {
		add(d, model.Sent, rate)
		add(d, model.Datagrams, float64(cur.datagrams-prev.datagrams))
	} else {
		add(d, model.Goodput, rate)
		add(d, model.Datagrams, float64(cur.datagrams-prev.datagrams))
		// One that comes late was lost in an interval before.
		add(d, model.Lost, float64(cur.lost-prev.lost))
		var jitter float64
		for _, s := range t.streams {
			jitter += time.Duration(s.jitter.Load()).Seconds()
		}
		add(d, model.Jitter, jitter/float64(len(t.streams)))
	}
	add("", model.CPU, cur.cpu.Sub(prev.cpu).Total().Seconds()/length.Seconds())
	return out
}
