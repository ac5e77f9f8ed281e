package datagram

import (
	"encoding/binary"
	"math"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/measure/enginetest"
	"linerate/internal/measure/quiet"
	"linerate/internal/must"
)

// loopback returns two sockets that are connected with each other.
func loopback(t testing.TB, network string) (a, b *net.UDPConn) {
	t.Helper()
	if network == "udp6" {
		return enginetest.NewWire6(t).ConnectedUDP()
	}
	return enginetest.NewWire(t).ConnectedUDP()
}

// flow sends from a to b with a header of sequence number and time.
type flow struct {
	send    *Sender
	receive *Receiver
	a, b    *Conn
	tally   *Tally
	bytes   int64
	odd     int64 // datagrams of another size than sent
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

// run sends and receives until all is sent and received, or nothing came for
// some time after.
func (f *flow) run() time.Duration {
	start := time.Now()
	f.send.Start(start)
	f.receive.Start(start)
	defer quiet.Begin(2).End()
	sent, received := make(chan struct{}), make(chan struct{})
	go func() { f.recvErr = f.receive.Run(); close(received) }()
	go func() { f.sendErr = f.send.Run(); close(sent) }()
	<-sent
	took := time.Since(start)
	select {
	case <-received:
	case <-time.After(2 * time.Second): // more was lost, or is not counted
		f.receive.Stop()
		<-received
	}
	return took
}

// TestScheduleKeepsRate wakes at random times: what is sent by any time is what
// the rate allows, however late the sender was, unless it was very late.
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
	// A long wait is cut, so that a stop is seen.
	begin := c.now()
	c.until(begin + time.Hour)
	got := c.now() - begin
	must.True(t, got <= time.Minute, "slept %v", got)
}
