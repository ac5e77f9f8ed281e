package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
	"linerate/internal/must"
)

// ping sends n datagrams of size bytes from a host and returns how many were answered.
func ping(t testing.TB, l *Lab, from model.Host, to string, n, size int) (answered int) {
	t.Helper()
	must.Do(t, json.Unmarshal(run(t, l, from, "udp-answers", to, fmt.Sprint(n), fmt.Sprint(size)), &answered))
	return answered
}

// train sends n numbered datagrams from near to far. It returns what far counted of
// them, what the wire did to all frames of that direction, and how many of those were
// others: end marks, and the kernel's search for addresses.
func train(t testing.TB, l *Lab, n, size, gapMicros int) (c counted, did wire.Counters, others uint64) {
	t.Helper()
	result := listen(t, l, model.Far, "udp-count")
	run(t, l, model.Near, "udp-burst", "far", fmt.Sprint(n), fmt.Sprint(size), fmt.Sprint(gapMicros))
	result(&c)
	st := must.Get(l.Stats(t.Context()))(t)
	return c, st.To, st.To.Frames - uint64(n)
}

// TestFramesAreLostHeldBackAndDoubled: what the receiver finds missing, late and twice is
// what the wire says it did. The shares are held against truth by TestLossReorderDuplicate.
func TestFramesAreLostHeldBackAndDoubled(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			const n = 300 // fits into a socket's buffer, however late its reader comes
			l := startLab(t, "rtt=1ms,to.loss=10%,to.reorder=10%,to.dup=10%", kind)
			c, did, others := train(t, l, n, 64, 0)
			lost, twice := n-uint64(c.Distinct), uint64(c.Received-c.Distinct)
			must.True(t, lost != 0 && lost <= did.Lost && did.Lost <= lost+others,
				"%d datagrams are missing, the wire lost %d, some of them of %d others", lost, did.Lost, others)
			must.True(t, c.Late != 0 && uint64(c.Late) <= did.Reordered && c.Distance >= wire.ReorderDistance,
				"%d late, by up to %d datagrams; the wire held back %d", c.Late, c.Distance, did.Reordered)
			must.True(t, twice != 0 && twice <= did.Duplicated, "%d arrived twice, the wire doubled %d", twice, did.Duplicated)
			must.True(t, did.Missed+did.Refused <= 0, "frames were lost outside the wire: %+v", did)
		})
	}
}

func TestQueueDrops(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			const n = 50
			// A frame takes 25 ms and the queue holds five: a sender that takes less than
			// a second loses some.
			l := startLab(t, "rate=500kbit,queue=8KiB,rtt=0s", kind)
			c, did, others := train(t, l, n, 1472, 0)
			lost := n - uint64(c.Distinct)
			must.True(t, lost != 0 && lost <= did.QueueDrops && did.QueueDrops <= lost+others && did.Lost <= 0,
				"%d datagrams are missing, the queue dropped %d, some of them of %d others; %d were lost", lost, did.QueueDrops, others, did.Lost)
		})
	}
}

func TestBlackholeDropsLargeFramesOnly(t *testing.T) {
	for _, tt := range []struct {
		kind wire.Kind
		spec string
	}{
		{wire.Packet, "rtt=0s,to.blackhole=1400"}, {wire.TAP, "rtt=0s,to.blackhole=1400"},
		{wire.Packet, "hops=2,hop1.blackhole=1400"}, {wire.Packet, "rtt=0s,hops=1,to.blackhole=1400,from.delay=1ms"},
	} {
		t.Run(string(tt.kind)+"/"+tt.spec, func(t *testing.T) {
			l := startLab(t, tt.spec, tt.kind)
			listen(t, l, model.Far, "udp-echo")
			// 20 bytes of IPv4 header and 8 of UDP are added.
			must.Equal(t, ping(t, l, model.Near, "far", 3, 1372), 3, "of 3 packets of 1400 bytes came back")
			must.Equal(t, ping(t, l, model.Near, "far", 3, 1373), 0, "of 3 packets of 1401 bytes came back")
			st := must.Get(l.Stats(t.Context()))(t)
			must.True(t, st.To.MTUDrops == 3 && st.From.MTUDrops == 0, "wire says %d and %d vanished, want 3 and 0", st.To.MTUDrops, st.From.MTUDrops)
			must.True(t, st.To.Frames >= 8 && st.To.Delivered >= 5 && st.To.Missed+st.To.Refused == 0, "3, 3 and 2 frames were sent: %+v", st.To)
		})
	}
}

// TestBundle: both members of a bundle carry flows, each one with the link's own keys: a
// policer that lets 15 of these frames pass, and then one in 8 s.
func TestBundle(t *testing.T) {
	l := startLab(t, "hops=2,hop1.police=1kbit,hop1.ecmp=2", wire.Packet)
	const n = 60
	run(t, l, model.Near, "udp-fan", "far", fmt.Sprint(n), "1000")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		to := must.Get(l.Stats(t.Context()))(t).To
		if to.Delivered+to.Policed >= n {
			must.True(t, to.Delivered > 22 && to.Policed > 20, "two members let %d frames pass and drop %d", to.Delivered, to.Policed)
			return
		}
		must.Need(t, time.Since(begun) <= patience, "frames are missing: %+v", to)
	}
}

func TestJumboAndSmallMTU(t *testing.T) {
	for _, kind := range kinds {
		for mtu, keys := range map[int]string{576: "mtu=576", 9000: "mtu=9000", 1400: "hops=2,hop1.mtu=1400"} {
			t.Run(fmt.Sprintf("%s/%d", kind, mtu), func(t *testing.T) {
				if kind == wire.TAP && mtu == 1400 {
					t.Skip("routers need veth pairs")
				}
				l := startLab(t, "rate=200mbit,rtt=1ms,"+keys, kind)
				result := listen(t, l, model.Far, "tcp-sink", "0", "50", "2")
				before := must.Get(l.Stats(t.Context()))(t)
				run(t, l, model.Near, "tcp-source", "far")
				var rates []float64
				result(&rates)
				st := must.Get(l.Stats(t.Context()))(t)
				// Bulk TCP fills its frames, and none may be larger than the MTU.
				mean := float64(st.To.Bytes-before.To.Bytes) / float64(st.To.Frames-before.To.Frames)
				full := float64(mtu + wire.HeaderBytes)
				must.True(t, mean >= 0.9*full && mean <= full, "mean frame of %.0f bytes, want nearly %.0f", mean, full)
			})
		}
	}
}

// TestMain makes the test binary serve as the lab's processes and as the
// programs that tests run in the hosts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "lab-init" {
		exit(Child(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "peer" {
		exit(peer(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
