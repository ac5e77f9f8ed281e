package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"testing"
	"time"

	"linerate/internal/lab/labtest"
)

// flows is what these tests read of the reports of a test's ends.
type flows struct {
	Session struct {
		Runs []struct {
			Ends []struct {
				Host  string `json:"host"`
				Flows []struct {
					Role string `json:"role"`
					UDP  *struct {
						Received   int64 `json:"received"`
						Lost       int64 `json:"lost"`
						Duplicates int64 `json:"duplicates"`
						Reordered  int64 `json:"reordered"`
					} `json:"udp"`
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
		Search *struct {
			Found bool    `json:"found"`
			Rate  float64 `json:"rate"`
		} `json:"search"`
	} `json:"report"`
}

// attempt repeats measure until it returns "", and judges what it says only on a
// machine that has time for the wire.
func attempt(t testing.TB, measure func() string) {
	t.Helper()
	labtest.Try(t, measure)
}

// awake keeps the machine's cores from sleeping until the test ends: a core that
// must wake up first adds some 0.1 ms to every packet, which is the machine's and
// neither the wire's nor linerate's.
func awake(t testing.TB) {
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

// TestTruthOfLoss plants loss on the wire, and demands that it is found within
// what chance allows (4 standard deviations: 1 of 16,000).
func TestTruthOfLoss(t *testing.T) {
	needLab(t)
	for _, share := range []float64{0.001, 0.01, 0.05} {
		t.Run(fmt.Sprintf("%g %%", 100*share), func(t *testing.T) {
			attempt(t, func() string {
				got := datagramsOf(t, fmt.Sprintf("lab:rate=1gbit,rtt=2ms,loss=%g%%", 100*share))
				n := float64(got.Received + got.Lost)
				mean, deviation := n*share, math.Sqrt(n*share*(1-share))
				if n < 9000 || math.Abs(float64(got.Lost)-mean) > 4*deviation {
					return fmt.Sprintf("lost %d of %.0f, planted %g %%", got.Lost, n, 100*share)
				}
				return ""
			})
		})
	}
}

// TestTruthOfOddDatagrams plants duplicates and reordering without loss.
func TestTruthOfOddDatagrams(t *testing.T) {
	needLab(t)
	attempt(t, func() string {
		got := datagramsOf(t, "lab:rate=1gbit,rtt=2ms,dup=2%,reorder=1%")
		n := float64(got.Received)
		near := func(k int64, share float64) bool {
			return math.Abs(float64(k)-n*share) <= 4*math.Sqrt(n*share*(1-share))
		}
		if n < 9000 || got.Lost != 0 || !near(got.Duplicates, 0.02) || !near(got.Reordered, 0.01) {
			return fmt.Sprintf("%+v; planted 2 %% twice and 1 %% late", got)
		}
		return ""
	})
}

// received is what the receiver says of the datagrams.
type received struct{ Received, Lost, Duplicates, Reordered int64 }

// datagramsOf sends 10,000 datagrams over a lab and returns the receiver's count.
func datagramsOf(t testing.TB, spec string) received {
	t.Helper()
	r := succeed(t, "test", spec, "--to", "-u", "-b", "20M", "-l", "500", "-t", "2s", "--omit", "0s", "--idle", "0s", "--json=full", "-q")
	for _, end := range decode[flows](t, r.out).Session.Runs[0].Ends {
		for _, f := range end.Flows {
			if f.Role == "receiver" && f.UDP != nil {
				return received{f.UDP.Received, f.UDP.Lost, f.UDP.Duplicates, f.UDP.Reordered}
			}
		}
	}
	t.Fatalf("no receiver's count of datagrams in %s", r.out)
	return received{}
}

// latency returns the median and what the load added, of one kind of probe.
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

// TestTruthOfDelay holds the idle latency against the wire's delay, and against
// what the machine itself adds to a wait of that length at the same time.
func TestTruthOfDelay(t *testing.T) {
	needLab(t)
	awake(t)
	for _, rtt := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(rtt.String(), func(t *testing.T) {
			attempt(t, func() string {
				got, _ := latency(t, "idle udp", "lab:rtt="+rtt.String(), "--to", "-t", "0.2s", "-i", "0.2s", "--omit", "0s", "--idle", "2s")
				if got < rtt {
					t.Errorf("median %v, planted %v", got, rtt)
				}
				// Several sockets, and the wire's process, are woken on the way.
				machine := labtest.Waking(t, rtt, 15)
				if over := got - rtt; over > 200*time.Microsecond+2*machine {
					return fmt.Sprintf("median %v, planted %v, and the machine adds %v to a wait", got, rtt, machine)
				}
				return ""
			})
		})
	}
}

// TestTruthOfQueue keeps a queue of 256 KiB at 100 Mbit/s full: 174 frames of
// 1514 bytes, each 0.12304 ms on the wire, are 21.3 ms.
func TestTruthOfQueue(t *testing.T) {
	needLab(t)
	const want = 174 * 123040 * time.Nanosecond
	attempt(t, func() string {
		_, added := latency(t, "loaded udp", "lab:rate=100mbit,rtt=2ms,queue=256KiB", "--to", "-u", "-b", "110M", "-t", "2s", "--omit", "1s")
		if math.Abs(float64(added)/float64(want)-1) > 0.1 {
			return fmt.Sprintf("the load added %v, want %v within 10 %%", added, want)
		}
		return ""
	})
}

// TestTruthOfSharedBus plants a bus that both directions share, and demands that both at
// once get together what one gets alone.
func TestTruthOfSharedBus(t *testing.T) {
	needLab(t)
	const spec = "lab:rate=1gbit,bus=400mbit,rtt=1ms"
	attempt(t, func() string {
		one := goodputs(t, spec, "--to")
		both := goodputs(t, spec, "--bidir")
		// Bytes of payload in the 1514 of a frame on the bus; acknowledgements
		// of the other direction, 66 bytes for two segments, share it.
		if ceiling := 400e6 * 1448 / 1514; math.Abs(one["to"]/ceiling-1) > 0.05 {
			return fmt.Sprintf("one way %.1f Mbit/s, want %.1f", one["to"]/1e6, ceiling/1e6)
		}
		sum := both["to"] + both["from"]
		if sum > 1.02*one["to"] || sum < 0.85*one["to"] || both["to"] > 0.75*one["to"] || both["from"] > 0.75*one["to"] {
			return fmt.Sprintf("both ways %.1f and %.1f Mbit/s, one way %.1f", both["to"]/1e6, both["from"]/1e6, one["to"]/1e6)
		}
		return ""
	})
}

func goodputs(t testing.TB, args ...string) map[string]float64 {
	t.Helper()
	r := succeed(t, append(append([]string{"test"}, args...), "-t", "2s", "--omit", "1s", "--idle", "0s", "--json", "-q")...)
	d := decode[document](t, r.out)
	out := map[string]float64{}
	for _, way := range []string{"to", "from"} {
		if g := d.goodput(way); len(g) > 0 {
			out[way] = g[0]
		}
	}
	return out
}

// TestTruthOfSearch asks for the highest rate of a wire that is known:
// 1472 of 1538 bytes at 50 Mbit/s.
func TestTruthOfSearch(t *testing.T) {
	needLab(t)
	const want = 50e6 * 1472 / 1538
	attempt(t, func() string {
		r := succeed(t, "test", "lab:rate=50mbit,rtt=2ms,queue=64KiB", "--to", "--search", "-t", "0.5s", "-i", "0.5s", "--omit", "0.2s", "--repeat", "2", "--json", "-q")
		s := decode[flows](t, r.out).Report.Search
		if s == nil || !s.Found || s.Rate > 1.01*want || s.Rate < 0.95*want {
			return fmt.Sprintf("found %+v, want %.2f Mbit/s", s, want/1e6)
		}
		return ""
	})
}

// TestTruthOfBlackHole makes packets above 1590 bytes vanish on a path of 9000:
// messages of 1539 bytes, 1591 with their headers, never arrive. The sweep says
// so, confirms it, and ends.
func TestTruthOfBlackHole(t *testing.T) {
	needLab(t)
	r := succeed(t, "sweep", "lab:rate=1gbit,rtt=1ms,mtu=9000,to.blackhole=1590", "--min", "1KiB", "--max", "1536", "-t", "0.6s", "--json", "-q")
	d := decode[struct {
		Report struct {
			Sweep struct {
				Directions []struct {
					Curve struct {
						Sizes []struct {
							Size    int `json:"size"`
							Trials  int `json:"trials"`
							Stalled int `json:"stalled"`
						} `json:"sizes"`
					} `json:"curve"`
					Findings []struct {
						State string `json:"state"`
						Text  string `json:"text"`
					} `json:"findings"`
				} `json:"directions"`
			} `json:"sweep"`
		} `json:"report"`
	}](t, r.out)
	if len(d.Report.Sweep.Directions) != 1 {
		t.Fatalf("%d directions in %s", len(d.Report.Sweep.Directions), r.out)
	}
	way := d.Report.Sweep.Directions[0]
	for _, s := range way.Curve.Sizes {
		if stalls := s.Size > 1538; (s.Stalled > 0) != stalls || (s.Trials > 0) == stalls {
			t.Errorf("%d bytes: stalled in %d passes, %d trials", s.Size, s.Stalled, s.Trials)
		}
	}
	if len(way.Findings) != 1 || way.Findings[0].State != "confirmed" {
		t.Errorf("findings %+v", way.Findings)
	}
}
