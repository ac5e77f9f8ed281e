package datagram

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"linerate/internal/must"
)

// everyWay are the ways of talking to the kernel; on some systems they are the
// same.
var everyWay = map[string]Options{
	"native": {}, "plain": {Plain: true}, "portable": {Portable: true}, "portable plain": {Portable: true, Plain: true},
}

// TestEveryWayCountsTheSame sends the same through each way.
func TestEveryWayCountsTheSame(t *testing.T) {
	for name, o := range everyWay {
		for _, network := range []string{"udp4", "udp6"} {
			for _, size := range []int{16, 1000, 1473, 65507} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, network, size), func(t *testing.T) {
					if size == 65507 && network == "udp6" {
						size = 65487 // IPv6 headers are longer, and count
					}
					// No more than any receive buffer holds.
					n := min(500, 1<<20/int64(size))
					a, b := loopback(t, network)
					f := newFlow(t, a, b, o, SenderOptions{Size: size}, limits{count: n})
					f.run()
					must.Need(t, f.sendErr == nil && f.recvErr == nil, "send: %v, receive: %v", f.sendErr, f.recvErr)
					if f.tally.Received != n || f.bytes != n*int64(size) || f.odd != 0 || f.send.Sent.Load() != n {
						t.Errorf("sent %d of %d, received %d in %d bytes, %d odd ones",
							f.send.Sent.Load(), n, f.tally.Received, f.bytes, f.odd)
					}
					must.Equal(t, f.tally.Reordered+f.tally.Duplicates, 0, "%d reordered, %d duplicates", f.tally.Reordered, f.tally.Duplicates)
					if o.Plain || o.Portable {
						must.True(t, !f.send.Segmented() && !f.receive.Coalesced(), "segmented %t, coalesced %t", f.send.Segmented(), f.receive.Coalesced())
					}
				})
			}
		}
	}
}

// TestQuietLoops holds that sending and receiving allocate nothing.
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
		must.True(t, runtime.GOOS != "linux" && runtime.GOOS != "windows" || errors.Is(err, ErrNobodyListens), "error %v", err)
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
				select {
				case <-ends:
				case <-time.After(time.Minute):
					t.Fatal("a loop goes on")
				}
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
			if string(buf[:n]) != "hello" {
				t.Errorf("got %q", buf[:n])
			}
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
