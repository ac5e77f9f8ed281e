//go:build truth && linux

package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/labtest"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// flows is the part of the reports of a test's ends that these tests read.
type flows struct {
	Session struct {
		Runs []struct {
			Ends []struct {
				Flows []struct {
					Role string `json:"role"`
					UDP  *received
				} `json:"flows"`
			} `json:"ends"`
		} `json:"runs"`
	} `json:"session"`
	Report struct {
		Latencies []struct {
			Name string `json:"name"`
			P50  struct {
				Value time.Duration `json:"value"`
			} `json:"p50_ns"`
			Added struct {
				Value time.Duration `json:"value"`
			} `json:"added_ns"`
		} `json:"latencies"`
	} `json:"report"`
}

// received is a receiver's count of datagrams.
type received struct{ Received, Lost, Duplicates, Reordered int64 }

// keepAwake keeps the machine's cores from sleeping until the test ends: waking a core adds some
// 0.1 ms to every packet, which is due to the machine and neither to the link nor to linerate.
func keepAwake(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		cmd := exec.CommandContext(ctx, "nice", "-n", "19", "chrt", "--idle", "0", "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Logf("the cores may sleep: %v", err)
			continue
		}
		t.Cleanup(func() {
			cancel()
			_ = cmd.Wait() // it was killed
		})
	}
	t.Cleanup(cancel)
}

// deviations returns how many standard deviations k is from the expectation for a share of n.
func deviations(k int64, n, share float64) float64 {
	return (float64(k) - n*share) / math.Sqrt(n*share*(1-share))
}

// TestTruthOfLoss plants loss on the link, and requires that the measured loss is within chance
// (4 standard deviations: 1 of 16,000).
func TestTruthOfLoss(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		for _, share := range []float64{0.001, 0.01, 0.05} {
			got := datagramsOf(try, fmt.Sprintf("lab:rate=1gbit,rtt=2ms,loss=%g%%", 100*share))
			n := float64(got.Received + got.Lost)
			try.Claim(fmt.Sprintf("datagrams at %g %%", 100*share), n, 9000, math.Inf(1), "")
			try.Claim(fmt.Sprintf("loss of %g %%", 100*share), deviations(got.Lost, n, share), -4, 4, "standard deviations")
		}
	})
}

// TestTruthOfOddDatagrams plants duplicates and reordering without loss.
func TestTruthOfOddDatagrams(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		got := datagramsOf(try, "lab:rate=1gbit,rtt=2ms,dup=2%,reorder=1%")
		n := float64(got.Received)
		try.Claim("received", n, 9000, math.Inf(1), "datagrams")
		try.Claim("lost", float64(got.Lost), 0, 0, "datagrams")
		try.Claim("twice", deviations(got.Duplicates, n, 0.02), -4, 4, "standard deviations")
		try.Claim("late", deviations(got.Reordered, n, 0.01), -4, 4, "standard deviations")
	})
}

// datagramsOf sends 10,000 datagrams over a lab and returns the receiver's count.
func datagramsOf(t testing.TB, spec string) received {
	t.Helper()
	r := succeed(t, "test", spec, "--to", "-u", "-b", "20M", "-l", "500", "-t", "2s", "--omit", "0s", "--idle", "0s", "--json=full", "-q")
	for _, end := range decode[flows](t, r.out).Session.Runs[0].Ends {
		for _, f := range end.Flows {
			if f.Role == "receiver" && f.UDP != nil {
				return *f.UDP
			}
		}
	}
	t.Fatalf("no receiver's count of datagrams in %s", r.out)
	return received{}
}

// latency returns the median of one kind of probe, and what the load added to it.
func latency(t testing.TB, name string, args ...string) (p50, added time.Duration) {
	t.Helper()
	r := succeed(t, append(append([]string{"test"}, args...), "--json", "-q")...)
	for _, l := range decode[flows](t, r.out).Report.Latencies {
		if l.Name == name {
			return l.P50.Value, l.Added.Value
		}
	}
	t.Fatalf("no latency %q in %s", name, r.out)
	return 0, 0
}

// TestTruthOfDelay compares the idle latency with the link's delay, and with what the machine
// itself adds to a wait of that length at the same time.
func TestTruthOfDelay(t *testing.T) {
	needLab(t)
	keepAwake(t)
	for _, rtt := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				got, _ := latency(try, "idle udp", "lab:rtt="+rtt.String(), "--to", "-t", "0.2s", "-i", "0.2s", "--omit", "0s", "--idle", "2s")
				// Several sockets, and the link's process, are woken on the way.
				machine := labtest.Waking(t, rtt, 15)
				try.Claim("median over the delay of the wire", (got-rtt).Seconds()*1e6, 0, (200*time.Microsecond+2*machine).Seconds()*1e6, "us")
			})
		})
	}
}

// TestTruthOfQueue keeps a queue of 256 KiB at 100 Mbit/s full: 174 frames of 1514 bytes, each
// 0.12304 ms on the wire, are 21.3 ms.
func TestTruthOfQueue(t *testing.T) {
	needLab(t)
	const want = 174 * 0.12304
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		_, added := latency(try, "loaded udp", "lab:rate=100mbit,rtt=2ms,queue=256KiB", "--to", "-u", "-b", "110M", "-t", "2s", "--omit", "1s")
		try.Claim("added by the load", added.Seconds()*1e3, 0.9*want, 1.1*want, "ms")
	})
}

// TestTruthOfSharedBus plants a bus that both directions share, and requires that both together
// get what one gets alone.
func TestTruthOfSharedBus(t *testing.T) {
	needLab(t)
	const spec = "lab:rate=1gbit,bus=400mbit,rtt=1ms"
	// Bytes of payload in the 1514 of a frame on the bus; acknowledgements of the other
	// direction, 66 bytes for two segments, share it.
	const ceiling = 400 * 1448 / 1514.0
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		one := goodputs(try, spec, "--to")["to"]
		both := goodputs(try, spec, "--bidir")
		try.Claim("one way", one/1e6, 0.95*ceiling, 1.05*ceiling, "Mbit/s")
		try.Claim("both ways together", (both["to"]+both["from"])/one, 0.85, 1.02, "times one way")
		try.Claim("the larger half", max(both["to"], both["from"])/one, 0, 0.75, "times one way")
	})
}

func goodputs(t testing.TB, args ...string) map[string]float64 {
	t.Helper()
	r := succeed(t, append(append([]string{"test"}, args...), "-t", "2s", "--omit", "1s", "--idle", "0s", "--json", "-q")...)
	d := decode[document](t, r.out)
	out := map[string]float64{}
	for _, way := range []model.Direction{model.To, model.From} {
		if g := d.goodput(way); len(g) > 0 {
			out[string(way)] = g[0]
		}
	}
	return out
}

// TestTruthOfSearch searches for the highest rate of a known link: 1472 of 1538 bytes at 50
// Mbit/s; and of loopback up to a rate that it carries.
func TestTruthOfSearch(t *testing.T) {
	needLab(t)
	const want = 50.0 * 1472 / 1538
	v := serveJSON(t, serveEverything(t))
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "test", "lab:rate=50mbit,rtt=2ms,queue=64KiB", "--to", "--search", "-t", "0.5s", "-i", "0.5s", "--omit", "0.2s", "--repeat", "2", "--json", "-q")
		try.Claim("rate of a wire", searched(try, r)/1e6, 0.95*want, 1.01*want, "Mbit/s")
		r = succeed(try, "test", v.Link, "--to", "--search", "--loss", "2%", "-b", "20M", "-t", "0.1s", "--omit", "0s", "--repeat", "1", "--json", "-q")
		try.Claim("rate of loopback", searched(try, r)/1e6, 5.8, 20, "Mbit/s")
	})
}

// searched returns the rate that a search found.
func searched(t testing.TB, r result) float64 {
	t.Helper()
	s := decode[engineReport](t, r.out).Report.Search
	must.Need(t, s != nil && s.Found, "nothing was found: %+v", s)
	return s.Rate
}

// TestTruthOfBlackHole makes packets above 1590 bytes vanish on a path of 9000: messages of
// 1539 bytes, 1591 with their headers, never arrive. The sweep reports that, confirms it, and
// ends.
func TestTruthOfBlackHole(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "sweep", "lab:rate=1gbit,rtt=1ms,mtu=9000,to.blackhole=1590", "--min", "1KiB", "--max", "1536", "-t", "0.6s", "--json", "-q")
		d := decode[struct {
			Report struct {
				Sweep struct {
					Directions []struct {
						Curve struct {
							Sizes []struct{ Size, Trials, Stalled int } `json:"sizes"`
						} `json:"curve"`
						Findings []struct{ State, Text string } `json:"findings"`
					} `json:"directions"`
				} `json:"sweep"`
			} `json:"report"`
		}](try, r.out)
		must.Need(try, len(d.Report.Sweep.Directions) == 1, "%d directions in %s", len(d.Report.Sweep.Directions), r.out)
		way := d.Report.Sweep.Directions[0]
		for _, s := range way.Curve.Sizes {
			stalls := s.Size > 1538
			must.True(try, (s.Stalled > 0) == stalls && (s.Trials > 0) != stalls, "%d bytes: stalled in %d passes, %d trials", s.Size, s.Stalled, s.Trials)
		}
		must.True(try, len(way.Findings) == 1 && way.Findings[0].State == "confirmed", "findings %+v", way.Findings)
	})
}

// TestTruthOfSwing: within a period of a day a run of a second sees one rate. At its top the
// path carries 1.4 times what its mean allows, at the bottom 0.6 times; the stated ceiling is
// that of the mean, with a source that says so. Reno and a queue of 256 KiB keep the link busy.
func TestTruthOfSwing(t *testing.T) {
	needLab(t)
	const (
		spec = "lab:rate=20mbit,rtt=2ms,to.swing=40%/24h/6h,from.swing=40%/24h/18h,near.tcp.congestion_control=reno,far.tcp.congestion_control=reno"
		mean = 18.8296e6 // diagnosis.md section 2.1
	)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		out := succeed(try, "test", spec, "-t", "1s", "--omit", "2s", "--idle", "0s", "--json=full", "-q").out
		d := decode[ceilings](try, out)
		for way, want := range map[string]float64{"to": 1.4 * mean, "from": 0.6 * mean} {
			try.Claim(way, median(decode[document](try, out).goodput(model.Direction(way)))/want, 0.99, 1.01, "times the rate of that hour")
		}
		for _, l := range d.Report.Lines {
			try.Claim("ceiling "+l.Direction, l.Ceiling.Value/mean, 1-1e-4, 1+1e-4, "times the mean")
		}
		for i, phase := range []string{"/6h0m0s", "/18h0m0s"} {
			rate := d.Session.Hosts[i].PathRate
			must.True(try, rate.Value == 20e6 && strings.HasSuffix(rate.Source, "the mean of a rate that swings by 40%/24h0m0s"+phase),
				"host %d has the path rate %+v", i, rate)
		}
	})
}

// ceilings is the part of a session's ceilings that these tests read.
type ceilings struct {
	Session struct {
		Hosts []struct {
			PathRate struct {
				Value  float64
				Source string
			} `json:"path_rate"`
		}
	}
	Report struct {
		Lines []struct {
			Direction string
			Goodput   float64
			Ceiling   struct{ Value float64 }
		}
	}
}

// TestTruthOfCeilings: a path that carries ten times as much in one direction as in the other
// has two ceilings, small segments lower both, and each direction is compared with its own.
func TestTruthOfCeilings(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		for name, c := range map[string]struct {
			flags    []string
			to, from float64 // diagnosis.md section 2.1
		}{
			"full segments":  {nil, 4.7074e6, 47.074e6},
			"small segments": {[]string{"-M", "536"}, 4.2671e6, 42.671e6},
		} {
			args := append([]string{"test", "lab:rate=50mbit,to.rate=5mbit,rtt=2ms", "-t", "1s", "--omit", "1s", "--idle", "0s", "--json", "-q"}, c.flags...)
			lines := decode[ceilings](try, succeed(try, args...).out).Report.Lines
			must.Need(try, len(lines) == 2, "%+v", lines)
			for _, l := range lines {
				want := map[string]float64{"to": c.to, "from": c.from}[l.Direction]
				try.Claim(name+", ceiling "+l.Direction, l.Ceiling.Value/want, 1-1e-4, 1+1e-4, "times the right one")
				try.Claim(name+", goodput "+l.Direction, l.Goodput/want, 0, 1.03, "times the ceiling")
			}
		}
	})
}

// TestTruthOfGoodput compares the data plane and the lab with arithmetic: the link's rate is
// known, so the goodput is too.
func TestTruthOfGoodput(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		for _, c := range []struct {
			rate            string
			ceiling, within float64 // diagnosis.md 2.1, MTU 1500 with timestamps
		}{{"100mbit", 94.148, 0.005}, {"1gbit", 941.482, 0.015}} {
			r := succeed(try, "test", "lab:rtt=2ms,rate="+c.rate, "--to", "--repeat", "3", "-t", "2s", "--omit", "1s", "--idle", "0s", "--json", "-q")
			// What was in a receiver's buffer at the start of the window counts in it, so a run
			// may show a little more than the link carries.
			got := median(decode[document](try, r.out).goodput("to")) / 1e6
			try.Claim("median goodput of "+c.rate, got, c.ceiling*(1-c.within), c.ceiling*(1+c.within), "Mbit/s")
		}
	})
}
