package datagram

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/goruntime"
	"linerate/internal/must"
)

// everyWay lists the socket implementations; on some systems they are the same.
var everyWay = map[string]Options{
	"native": {}, "plain": {Plain: true}, "portable": {Portable: true}, "portable plain": {Portable: true, Plain: true},
}

// TestEveryWayCountsTheSame sends the same datagrams through each implementation.
func TestEveryWayCountsTheSame(t *testing.T) {
	for name, o := range everyWay {
		for _, network := range []string{"udp4", "udp6"} {
			for _, size := range []int{16, 1000, 1473, 65507} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, network, size), func(t *testing.T) {
					if size == 65507 && network == "udp6" {
						size = 65487 // IPv6 headers are longer, and count
					}
					// At most what any receive buffer holds.
					n := min(500, 1<<20/int64(size))
					a, b := loopback(t, network)
					f := newFlow(t, a, b, o, SenderOptions{Size: size}, limits{count: n})
					f.run()
					must.Need(t, f.sendErr == nil && f.recvErr == nil, "send: %v, receive: %v", f.sendErr, f.recvErr)
					must.True(t, f.tally.Received == n && f.bytes == n*int64(size) && f.odd == 0 && f.send.Sent.Load() == n, "sent %d of %d, received %d in %d bytes, %d odd ones", f.send.Sent.Load(), n, f.tally.Received, f.bytes, f.odd)
					must.Equal(t, f.tally.Reordered+f.tally.Duplicates, 0, "%d reordered, %d duplicates", f.tally.Reordered, f.tally.Duplicates)
					if o.Plain || o.Portable {
						must.True(t, !f.send.Segmented() && !f.receive.Coalesced(), "segmented %t, coalesced %t", f.send.Segmented(), f.receive.Coalesced())
					}
				})
			}
		}
	}
}

// TestQuietLoops: sending and receiving allocate nothing.
func TestQuietLoops(t *testing.T) {
	for _, plain := range []bool{false, true} {
		a, b := loopback(t, "udp4")
		const n = 20_000
		f := newFlow(t, a, b, Options{Plain: plain}, SenderOptions{Size: 100}, limits{count: n})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f.run()
		runtime.ReadMemStats(&after)
		got := after.Mallocs - before.Mallocs
		must.True(t, got <= n/100, "plain %t: %d allocations for %d datagrams", plain, got, n)
	}
}

func TestNobodyListens(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 100, Gap: 1e6}, limits{})
	must.Do(t, f.b.Close())
	done := make(chan error, 1)
	f.send.Start(time.Now())
	go func() { done <- f.send.Run() }()
	select {
	case err := <-done:
		must.True(t, runtime.GOOS != "linux" && runtime.GOOS != "windows" || errors.Is(err, ErrNoListener), "error %v", err)
	case <-time.After(time.Minute):
		f.send.Stop()
		t.Error("the sender goes on")
	}
}

func TestStopWaiting(t *testing.T) {
	for name, o := range everyWay {
		t.Run(name, func(t *testing.T) {
			a, b := loopback(t, "udp4")
			f := newFlow(t, a, b, o, SenderOptions{Size: 100, Gap: 1e9}, limits{})
			f.send.Start(time.Now())
			f.receive.Start(time.Now())
			ends := make(chan struct{}, 2)
			go func() { f.sendErr = f.send.Run(); ends <- struct{}{} }()
			go func() { f.recvErr = f.receive.Run(); ends <- struct{}{} }()
			f.send.Stop()
			f.receive.Stop()
			for range 2 {
				must.Wait(t, "the end of a loop", ends)
			}
			must.True(t, f.sendErr == nil && f.recvErr == nil, "send: %v, receive: %v", f.sendErr, f.recvErr)
		})
	}
}

// TestWriteAndPoll exchanges datagrams beside the loops.
func TestWriteAndPoll(t *testing.T) {
	for name, o := range everyWay {
		t.Run(name, func(t *testing.T) {
			a, b := loopback(t, "udp4")
			f := newFlow(t, a, b, o, SenderOptions{Size: 100}, limits{})
			buf := make([]byte, 100)
			if n, err := f.b.Poll(buf); n != 0 || err != nil {
				t.Errorf("polled %d, %v where nothing was sent", n, err)
			}
			must.Do(t, f.a.Write([]byte("hello")))
			n := 0
			for limit := time.Now().Add(5 * time.Second); n == 0 && time.Now().Before(limit); {
				var err error
				n, err = f.b.Poll(buf)
				must.Do(t, err)
			}
			must.True(t, string(buf[:n]) == "hello", "got %q", buf[:n])
			must.OK(t, errors.Join(f.a.Close(), f.a.Close()))
		})
	}
}

func TestAttachUnconnected(t *testing.T) {
	c := must.Get((&net.ListenConfig{}).ListenPacket(context.Background(), "udp", "127.0.0.1:0"))(t)
	must.Fail(t, must.Err(Attach(c.(*net.UDPConn), Options{})), "attached")
	must.Is(t, c.Close(), net.ErrClosed, "it was left open")
}

func TestSizeLimits(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 100}, limits{})
	for _, size := range []int{0, MaxPayload + 1} {
		must.Fail(t, must.Err(NewSender(f.a, SenderOptions{Size: size})), "a sender of %d bytes", size)
		must.Fail(t, must.Err(NewReceiver(f.a, ReceiverOptions{Size: size})), "a receiver of %d bytes", size)
	}
}

// loopback returns two sockets that are connected to each other.
func loopback(t testing.TB, network string) (a, b *net.UDPConn) {
	t.Helper()
	if network == "udp6" {
		return enginetest.NewWire6(t).ConnectedUDP()
	}
	return enginetest.NewWire(t).ConnectedUDP()
}

// flow sends from a to b with a header that holds a sequence number and a time.
type flow struct {
	send    *Sender
	receive *Receiver
	a, b    *Conn
	tally   *Tally
	bytes   int64
	odd     int64 // datagrams of an unexpected size
	sendErr error
	recvErr error
}

// limits of a test's flow.
type limits struct {
	count int64         // datagrams, or
	time  time.Duration // for how long
}

func newFlow(t testing.TB, ca, cb *net.UDPConn, o Options, so SenderOptions, l limits) *flow {
	t.Helper()
	f := &flow{tally: NewTally(0, 1<<20)}
	var err error
	f.a, err = Attach(ca, o)
	must.Do(t, err)
	f.b, err = Attach(cb, o)
	must.Do(t, err)
	t.Cleanup(func() {
		must.OK(t, f.a.Close())
		must.OK(t, f.b.Close())
	})
	so.Stamp = func(b []byte, seq int64, at time.Duration) {
		binary.BigEndian.PutUint64(b, uint64(seq))
		binary.BigEndian.PutUint64(b[8:], uint64(at))
	}
	so.Before = func(at time.Duration, next int64) (time.Duration, bool) {
		return 0, (l.count == 0 || next < l.count) && (l.time == 0 || at < l.time)
	}
	if l.count > 0 {
		so.Most = func(next int64) int64 { return l.count - next }
	}
	f.send = must.Get(NewSender(f.a, so))(t)
	f.receive, err = NewReceiver(f.b, ReceiverOptions{
		Size: so.Size, Spin: 50 * time.Microsecond,
		Handle: func(b []byte, at time.Duration, follows bool) {
			if len(b) != so.Size {
				f.odd++
				return
			}
			f.bytes += int64(len(b))
			f.tally.Add(Arrival{
				Seq: int64(binary.BigEndian.Uint64(b)), Sent: time.Duration(binary.BigEndian.Uint64(b[8:])),
				At: at, Follows: follows, Counted: true,
			})
		},
		After: func(time.Duration) bool { return l.count == 0 || f.tally.Total < l.count },
	})
	must.Do(t, err)
	return f
}

// run sends and receives until everything has arrived, or nothing has for some time.
func (f *flow) run() time.Duration {
	start := time.Now()
	f.send.Start(start)
	f.receive.Start(start)
	defer goruntime.Begin(2).End()
	sent, received := make(chan struct{}), make(chan struct{})
	go func() { f.recvErr = f.receive.Run(); close(received) }()
	go func() { f.sendErr = f.send.Run(); close(sent) }()
	<-sent
	took := time.Since(start)
	select {
	case <-received:
	case <-time.After(2 * time.Second): // the rest was lost, or is not counted
		f.receive.Stop()
		<-received
	}
	return took
}

// TestScheduleKeepsRate wakes at random times: the number sent by any time matches the rate,
// however late the sender was, unless it was very late.
func TestScheduleKeepsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{
			gap:    rapid.Float64Range(100, 1e7).Draw(t, "gap"),
			offset: time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "offset")),
		}
		most := rapid.IntRange(1, 64).Draw(t, "most")
		at := time.Duration(0)
		for range rapid.IntRange(1, 50).Draw(t, "wakes") {
			at += time.Duration(rapid.Int64Range(0, 50e6).Draw(t, "nap"))
			s.forgive(at)
			for n := s.ready(at, most); n > 0; n = s.ready(at, most) {
				must.Need(t, n <= most && s.due(s.slot+int64(n)-1) <= at, "%d are ready at %v, the last is due at %v", n, at, s.due(s.slot+int64(n)-1))
				s.slot += int64(n)
			}
			must.Need(t, s.next() > at, "one due at %v was left at %v", s.next(), at)
			must.Need(t, s.missed <= 0, "%d given up, though never more than 50 ms late", s.missed)
			want := math.Floor(float64(at-s.offset)/s.gap) + 1
			must.Need(t, at < s.offset || math.Abs(float64(s.slot)-want) <= 1, "%d sent at %v, want %v", s.slot, at, want)
		}
	})
}

func TestScheduleForgives(t *testing.T) {
	s := schedule{gap: 1e6} // 1 ms
	s.forgive(time.Second)
	must.Need(t, s.missed != 0 && s.slot == s.missed, "slot %d, missed %d", s.slot, s.missed)
	behind := time.Second - s.next()
	must.True(t, behind <= catchUp && behind >= catchUp-2*time.Millisecond, "%v are made good, want about %v", behind, catchUp)
	before := s.missed
	s.forgive(time.Second)
	must.Equal(t, s.missed, before, "given up twice")
}

func TestClockWaits(t *testing.T) {
	c := newClock(time.Now())
	for _, d := range []time.Duration{0, 5 * time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		due := c.now() + d
		c.until(due)
		at := c.now()
		must.True(t, at >= due, "woke at %v, due at %v", at, due)
	}
	// A long wait is split, so that a stop is noticed.
	begin := c.now()
	c.until(begin + time.Hour)
	got := c.now() - begin
	must.True(t, got <= time.Minute, "slept %v", got)
}
