package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// document is what these tests read of linerate/session/v1.
type document struct {
	Schema  string `json:"schema"`
	Session struct {
		ID    string `json:"id"`
		State string `json:"state"`
		Plan  struct {
			Order [][]string `json:"order"`
		} `json:"plan"`
		Runs []struct {
			Setting string `json:"setting"`
			State   string `json:"state"`
			Reason  string `json:"reason"`
			Values  []struct {
				Direction string  `json:"direction"`
				Metric    string  `json:"metric"`
				Value     float64 `json:"value"`
			} `json:"values"`
		} `json:"runs"`
		Findings []struct {
			Rule      string `json:"rule"`
			Direction string `json:"direction"`
			Host      string `json:"host"`
			Limit     string `json:"limit"`
			Implied   struct {
				Value float64 `json:"value"`
			} `json:"implied"`
		} `json:"findings"`
		Verdicts []verdict `json:"verdicts"`
		Changes  []struct {
			State string `json:"state"`
		} `json:"changes"`
	} `json:"session"`
}

type verdict struct {
	Setting string `json:"setting"`
	Outcome string `json:"outcome"`
	IsTwin  bool   `json:"is_twin"`
}

// goodput returns the values of all valid runs in one direction, ascending.
func (d document) goodput(direction string) []float64 {
	var out []float64
	for _, r := range d.Session.Runs {
		for _, v := range r.Values {
			if r.State == "valid" && v.Metric == "goodput" && v.Direction == direction {
				out = append(out, v.Value)
			}
		}
	}
	slices.Sort(out)
	return out
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// TestGoodputIsTheFormulas holds the data plane and the lab against arithmetic:
// the wire's rate is known, so the goodput is too.
func TestGoodputIsTheFormulas(t *testing.T) {
	needLab(t)
	for _, c := range []struct {
		spec    string
		ceiling float64 // diagnosis.md 2.1, MTU 1500 with timestamps
		within  float64
	}{
		{"lab:rate=100mbit,rtt=2ms", 94.148e6, 0.005},
		{"lab:rate=1gbit,rtt=2ms", 941.482e6, 0.015},
	} {
		t.Run(c.spec, func(t *testing.T) {
			// The machine is shared and noisy; a lab that cannot keep up shows as
			// less. Three tries of a median of five, and no judgement on a machine
			// that had no time left for the wire, which needs a core and a third.
			var got, idle float64
			for range 3 {
				before := processorTimes(t)
				r := succeed(t, "test", c.spec, "--to", "--repeat", "5", "-t", "2s", "--omit", "1s", "--json", "-q")
				got = median(decode[document](t, r.out).goodput("to"))
				idle = idleShare(before, processorTimes(t))
				// What waited in a receiver's buffer at the start of the window counts
				// in it, so that a run may show a little more than the wire carries.
				if math.Abs(got/c.ceiling-1) <= c.within {
					return
				}
			}
			if idle < 0.15 && got < c.ceiling {
				t.Skipf("other processes kept the machine busy (idle %.0f %%): %.3f Mbit/s", 100*idle, got/1e6)
			}
			t.Errorf("median goodput %.3f Mbit/s, want %.3f within %.1f %%", got/1e6, c.ceiling/1e6, 100*c.within)
		})
	}
}

// processorTimes reads what the machine's cores did since its start, in ticks:
// user, nice, system, idle, iowait, irq, softirq, steal (proc(5)).
func processorTimes(t *testing.T) (v [8]float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f %f",
		&v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]); err != nil {
		t.Fatal(err)
	}
	return v
}

// idleShare returns the share of the machine's time that nobody needed: what is
// nice gives way to everybody else.
func idleShare(before, after [8]float64) float64 {
	total := 0.0
	for i := range after {
		total += after[i] - before[i]
	}
	return (after[3] - before[3] + after[1] - before[1]) / total
}

// TestReceiveWindowIsNamed plants a small receive ceiling and demands that it is
// found, blamed on the right host, and that its implied rate is near the
// measured one: in one of three tries, since a hiccup of the machine shows as a
// rate below what the window allows.
func TestReceiveWindowIsNamed(t *testing.T) {
	needLab(t)
	var ratio float64
	for range 3 {
		r := succeed(t, "test", "lab:rate=1gbit,rtt=10ms,b.tcp.recv_buffer_max=64KiB", "--to", "-t", "2s", "--json", "-q")
		d := decode[document](t, r.out)
		if len(d.Session.Findings) != 1 {
			t.Fatalf("findings %+v, want one", d.Session.Findings)
		}
		f := d.Session.Findings[0]
		if f.Limit != "receive window" || f.Host != "b" || f.Direction != "to" {
			t.Fatalf("found %q of host %s in direction %s, want the receive window of host b", f.Limit, f.Host, f.Direction)
		}
		ratio = f.Implied.Value / median(d.goodput("to"))
		if ratio >= 0.85 && ratio <= 1.15 {
			return
		}
	}
	t.Errorf("the window allows %.2f times what was measured, want 0.85 to 1.15", ratio)
}
