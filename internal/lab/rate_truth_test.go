//go:build truth && linux

package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/labtest"
	"linerate/internal/lab/wire"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// goodput is the payload share of TCP with timestamps over Ethernet with MTU 1500: 1448 bytes
// of payload in 1538 on the wire (RFC 7323 section 3.2; 20 + 20 + 12 bytes of headers).
const goodput = 1448.0 / 1538

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// claimGoodput claims that got agrees with the formula for a wire of rate bit/s.
func claimGoodput(try *truth.Try, name string, got, rate, tolerance float64) {
	want := goodput * rate / 1e6
	try.Claim(name, got/1e6, want*(1-tolerance), want*(1+tolerance), "Mbit/s")
}

// sunk returns the goodput of one direction in bit/s.
func sunk(t testing.TB, l *Lab, from, to model.Host, omitMillis, windowMillis, windows string) float64 {
	t.Helper()
	result := listen(t, l, to, "tcp-sink", omitMillis, windowMillis, windows)
	run(t, l, from, "tcp-source", string(to))
	var rates []float64
	result(&rates)
	return median(rates)
}

// trips returns n round trips from near to far in seconds, ascending.
func trips(t testing.TB, l *Lab, n int) (seconds []float64) {
	t.Helper()
	must.Do(t, json.Unmarshal(run(t, l, model.Near, "udp-ping", "far", fmt.Sprint(n), "64", "500"), &seconds))
	return seconds
}

func TestGoodput(t *testing.T) {
	for _, kind := range kinds {
		for _, tt := range []struct {
			spec            string
			rate, tolerance float64
		}{
			{"rate=100mbit,rtt=2ms", 1e8, 0.005},
			{"rate=1gbit,rtt=200us", 1e9, 0.015},
		} {
			t.Run(string(kind)+"/"+tt.spec, func(t *testing.T) {
				truth.Hold(t, truth.Tries, func(try *truth.Try) {
					l := startLab(try, tt.spec, kind)
					claimGoodput(try, "goodput", sunk(try, l, model.Near, model.Far, "400", "200", "5"), tt.rate, tt.tolerance)
					st := must.Get(l.Stats(try.Context()))(try)
					try.Claim("frames lost outside the wire", float64(st.To.Missed+st.To.Refused), 0, 0, "")
				})
			})
		}
	}
}

// TestIperf3 measures the wire with a program that is independent of linerate.
func TestIperf3(t *testing.T) {
	_, err := exec.LookPath("iperf3")
	must.SkipIf(t, err != nil, "needs iperf3: scripts/foreign installs it")
	for _, kind := range kinds {
		for _, tt := range []struct {
			spec            string
			rate, tolerance float64
		}{
			{"rate=10mbit,rtt=2ms", 1e7, 0.005},
			{"rate=100mbit,rtt=20ms", 1e8, 0.005},
			{"rate=500mbit,rtt=2ms", 5e8, 0.01},
			{"rate=1gbit,rtt=200us", 1e9, 0.015},
			{"rate=1gbit,rtt=10ms", 1e9, 0.015},
		} {
			t.Run(string(kind)+"/"+tt.spec, func(t *testing.T) {
				truth.Hold(t, truth.Tries, func(try *truth.Try) {
					l := startLab(try, tt.spec, kind)
					var out bytes.Buffer
					must.Do(try, l.Command(try.Context(), model.Far, []string{"iperf3", "-s", "-D", "-J"}, nil, nil, nil))
					argv := []string{"iperf3", "-c", "far", "-J", "-O", "2", "-t", "4", "-C", "cubic", "--get-server-output"}
					tick := time.NewTicker(50 * time.Millisecond)
					defer tick.Stop()
					for begun := time.Now(); ; <-tick.C { // the daemon starts to listen a while after it has detached
						out.Reset()
						err := l.Command(try.Context(), model.Near, argv, nil, &out, nil)
						if err == nil {
							break
						}
						if time.Since(begun) > patience {
							try.Fatalf("%v\n%s", err, out.Bytes())
						}
					}
					claimGoodput(try, "goodput by iperf3", intervals(try, out.Bytes()), tt.rate, tt.tolerance)
				})
			})
		}
	}
}

// intervals returns the median over the receiver's full seconds, which excludes the time in
// which the queue drains at the end.
func intervals(t testing.TB, text []byte) float64 {
	t.Helper()
	var r struct {
		Server struct {
			Intervals []struct {
				Sum struct {
					Rate    float64 `json:"bits_per_second"`
					Seconds float64 `json:"seconds"`
					Omitted bool    `json:"omitted"`
				} `json:"sum"`
			} `json:"intervals"`
		} `json:"server_output_json"`
	}
	must.Dof(t, json.Unmarshal(text, &r), "read iperf3's report")
	var rates []float64
	for _, i := range r.Server.Intervals {
		if !i.Sum.Omitted && i.Sum.Seconds > 0.9 {
			rates = append(rates, i.Sum.Rate)
		}
	}
	must.Need(t, len(rates) != 0, "no interval in iperf3's report: %.200s", text)
	return median(rates)
}

func TestRoundTrip(t *testing.T) {
	for _, kind := range kinds {
		for _, rtt := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%s", kind, rtt), func(t *testing.T) {
				l := startLab(t, "rtt="+rtt.String(), kind)
				listen(t, l, model.Far, "udp-echo")
				truth.Hold(t, truth.Tries, func(try *truth.Try) {
					const n = 15
					took := trips(try, l, n)
					must.True(t, !(took[0] < rtt.Seconds()), "a round trip took %.3f ms, less than %s", 1e3*took[0], rtt)
					most := rtt + 200*time.Microsecond + 2*labtest.Waking(try, rtt, n)
					try.Claim("median round trip", 1e3*median(took), 1e3*rtt.Seconds(), 1e3*most.Seconds(), "ms")
				})
			})
		}
	}
}

// claimShare claims that k of n agrees with share, within five standard deviations.
func claimShare(try *truth.Try, name string, k, n, share float64) {
	mean, five := n*share, 5*math.Sqrt(n*share*(1-share))
	try.Claim(name, k, mean-five, mean+five, "frames")
}

func TestLossReorderDuplicate(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			const n = 8000
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				l := startLab(try, "rtt=1ms,to.loss=1%,to.reorder=2%,to.dup=0.5%", kind)
				c, did, others := train(try, l, n, 64, 50)
				lost, twice := float64(n-c.Distinct), float64(c.Received-c.Distinct)
				try.Claim("frames lost outside the wire", float64(did.Missed+did.Refused), 0, 0, "")
				claimShare(try, "lost", float64(did.Lost), n, 0.01)
				try.Claim("missing", lost, float64(did.Lost)-float64(others), float64(did.Lost), "datagrams")
				claimShare(try, "late", float64(c.Late), n, 0.02)
				try.Claim("late, of those held back", float64(c.Late), 0, float64(did.Reordered), "datagrams")
				try.Claim("distance", float64(c.Distance), wire.ReorderDistance, math.Inf(1), "datagrams")
				claimShare(try, "doubled", float64(did.Duplicated), n, 0.005)
				try.Claim("arrived twice", twice, float64(did.Duplicated)-float64(others), float64(did.Duplicated), "datagrams")
			})
		})
	}
}

func TestQueueDelays(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			// 64 KiB are 43 frames of 1514 bytes, each 1.2304 ms at 10 Mbit/s.
			const n, full = 150, 43 * 1.2304
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				c, did, _ := train(try, startLab(try, "rate=10mbit,queue=64KiB,rtt=0s", kind), n, 1472, 0)
				const rate = 10.0 * 1472 / 1538
				try.Claim("missing", float64(n-c.Distinct), 1, float64(did.QueueDrops), "datagrams")
				try.Claim("longest way", c.LongestMs, full-1.5, full+3, "ms")
				try.Claim("drained at", c.Rate/1e6, 0.98*rate, 1.02*rate, "Mbit/s")
			})
		})
	}
}

func TestDirectionsDiffer(t *testing.T) {
	l := startLab(t, "to.rate=20mbit,from.rate=5mbit,to.delay=6ms,from.delay=2ms,queue=32KiB", wire.Auto)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		claimGoodput(try, "to", sunk(try, l, model.Near, model.Far, "300", "300", "3"), 20e6, 0.02)
		claimGoodput(try, "from", sunk(try, l, model.Far, model.Near, "300", "300", "3"), 5e6, 0.02)
	})
	listen(t, l, model.Far, "udp-echo")
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		try.Claim("round trip", 1e3*median(trips(try, l, 20)), 8, 9, "ms, 8 and serialisation")
	})
}

// TestRouterLinks: a narrow link on the path sets the rate of its direction and no other, the
// links share the delay of the path, and a router sends as many ICMP errors as its limit
// allows.
func TestRouterLinks(t *testing.T) {
	l := startLab(t, "rate=100mbit,rtt=8ms,hops=3,hop2.rate=20mbit,from.hop1.delay=2ms", wire.Packet)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		claimGoodput(try, "to", sunk(try, l, model.Near, model.Far, "300", "300", "3"), 20e6, 0.02)
		claimGoodput(try, "from", sunk(try, l, model.Far, model.Near, "300", "300", "3"), 100e6, 0.02)
	})
	listen(t, l, model.Far, "udp-echo")
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		const links = 4
		most := 10 + 0.2 + 1e3*2*links*labtest.Waking(try, 10*time.Millisecond/(2*links), 15).Seconds()
		try.Claim("round trip", 1e3*median(trips(try, l, 15)), 10, most, "ms")
	})
	const limit, burst = 20, 6 // burst: XRLIM_BURST_FACTOR of net/ipv4/icmp.c, Linux 6.18
	for _, six := range []bool{false, true} {
		truth.Hold(t, truth.Tries, func(try *truth.Try) {
			l := startLab(try, fmt.Sprintf("hops=1,hop1.icmp=%d/s", limit), wire.Packet)
			begun := time.Now()
			got := len(probes(try, l, model.Near, six, 1, 100, 0, 200, 10_000)) - 1
			took := time.Since(begun).Seconds()
			try.Claim("ICMP errors", float64(got), burst+limit*2-2, burst+limit*took+1, "")
		})
	}
}
