package datagram

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

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
	if f.a, err = Attach(ca, o); err != nil {
		t.Fatal(err)
	}
	if f.b, err = Attach(cb, o); err != nil {
		t.Fatal(err)
	}
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
	if f.send, err = NewSender(f.a, so); err != nil {
		t.Fatal(err)
	}
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
