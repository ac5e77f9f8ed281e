package main

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"linerate/internal/lab/labtest"
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

// TestTruthOfGoodput holds the data plane and the lab against arithmetic:
// the wire's rate is known, so the goodput is too.
func TestTruthOfGoodput(t *testing.T) {
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
			labtest.Try(t, func() string {
				r := succeed(t, "test", c.spec, "--to", "--repeat", "3", "-t", "2s", "--omit", "1s", "--idle", "0s", "--json", "-q")
				// What waited in a receiver's buffer at the start of the window counts
				// in it, so that a run may show a little more than the wire carries.
				if got := median(decode[document](t, r.out).goodput("to")); math.Abs(got/c.ceiling-1) > c.within {
					return fmt.Sprintf("median goodput %.3f Mbit/s, want %.3f within %.1f %%", got/1e6, c.ceiling/1e6, 100*c.within)
				}
				return ""
			})
		})
	}
}

// TestTruthOfReceiveWindow plants a small receive ceiling and demands that it is
// found, blamed on the right host, and that its implied rate is near the
// measured one. A hiccup of the machine shows as a rate below what the window
// allows, and a machine that is kept busy is a limit of its own.
func TestTruthOfReceiveWindow(t *testing.T) {
	needLab(t)
	labtest.Try(t, func() string {
		r := succeed(t, "test", "lab:rate=1gbit,rtt=10ms,b.tcp.recv_buffer_max=64KiB", "--to", "-t", "2s", "--json", "-q")
		d := decode[document](t, r.out)
		if len(d.Session.Findings) != 1 {
			return fmt.Sprintf("findings %+v, want one", d.Session.Findings)
		}
		f := d.Session.Findings[0]
		if f.Limit != "receive window" || f.Host != "b" || f.Direction != "to" {
			return fmt.Sprintf("found %q of host %s in direction %s, want the receive window of host b", f.Limit, f.Host, f.Direction)
		}
		if ratio := f.Implied.Value / median(d.goodput("to")); ratio < 0.85 || ratio > 1.15 {
			return fmt.Sprintf("the window allows %.2f times what was measured, want 0.85 to 1.15", ratio)
		}
		return ""
	})
}
