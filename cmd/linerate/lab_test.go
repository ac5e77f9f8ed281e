package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"linerate/internal/lab/labtest"
)

// document is what these tests read of linerate/session/v3.
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
			Kind      string `json:"kind"`
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
	Guard   struct {
		State string `json:"state"`
	} `json:"guard"`
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

// TestCeilingOfEachDirection: a path that carries ten times as much one way as the
// other has two ceilings, small segments lower both, and each direction is
// compared with its own. The wire's rates are known, so the shares are too.
func TestCeilingOfEachDirection(t *testing.T) {
	needLab(t)
	for name, c := range map[string]struct {
		flags    []string
		to, from float64 // diagnosis.md section 2.1
	}{
		"full segments":  {nil, 4.7074e6, 47.074e6},
		"small segments": {[]string{"-M", "536"}, 4.2671e6, 42.671e6},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"test", "lab:rate=50mbit,to.rate=5mbit,rtt=2ms", "-t", "1s", "--omit", "1s", "--idle", "0s", "--json", "-q"}, c.flags...)
			doc := decode[struct {
				Report struct {
					Lines []struct {
						Direction string  `json:"direction"`
						Goodput   float64 `json:"goodput"`
						Ceiling   struct {
							Value float64 `json:"value"`
						} `json:"ceiling"`
					} `json:"lines"`
				} `json:"report"`
			}](t, succeed(t, args...).out)
			if len(doc.Report.Lines) != 2 {
				t.Fatalf("%+v", doc)
			}
			for _, l := range doc.Report.Lines {
				want := map[string]float64{"to": c.to, "from": c.from}[l.Direction]
				if math.Abs(l.Ceiling.Value/want-1) > 1e-4 || l.Goodput > 1.03*want {
					t.Errorf("%s: %.0f of %.0f, want a ceiling of %.0f", l.Direction, l.Goodput, l.Ceiling.Value, want)
				}
			}
		})
	}
}

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
		r := succeed(t, "test", "lab:rate=1gbit,rtt=10ms,far.tcp.recv_buffer_max=64KiB", "--to", "-t", "2s", "--json", "-q")
		d := decode[document](t, r.out)
		if len(d.Session.Findings) == 0 {
			return "no finding"
		}
		f := d.Session.Findings[0]
		if f.Limit != "receive window" || f.Host != "far" || f.Direction != "to" {
			return fmt.Sprintf("found %q of host %s in direction %s, want the receive window of the far host", f.Limit, f.Host, f.Direction)
		}
		if ratio := f.Implied.Value / median(d.goodput("to")); ratio < 0.85 || ratio > 1.15 {
			return fmt.Sprintf("the window allows %.2f times what was measured, want 0.85 to 1.15", ratio)
		}
		return ""
	})
}

// TestDeadDirection: where full packets vanish one way, that is the first finding,
// the other direction is measured all the same, and the command ends with an error.
func TestDeadDirection(t *testing.T) {
	needLab(t)
	for _, c := range []struct{ dead, other string }{{"to", "from"}, {"from", "to"}} {
		t.Run(c.dead, func(t *testing.T) {
			t.Parallel()
			r := run(t, command(t, "test", "lab:rate=50mbit,rtt=5ms,"+c.dead+".blackhole=1300", "-t", "1s", "--omit", "300ms", "--json", "-q"))
			d := decode[document](t, r.out)
			if r.code != 5 || !strings.Contains(r.err, "nothing arrived in direction "+c.dead) {
				t.Errorf("exit code %d, %s", r.code, r.err)
			}
			if len(d.goodput(c.other)) != 1 || len(d.goodput(c.dead)) != 0 || len(d.Session.Runs) != 2 {
				t.Errorf("%d runs, %v, %v", len(d.Session.Runs), d.goodput(c.other), d.goodput(c.dead))
			}
			if f := d.Session.Findings; len(f) < 2 || f[0].Rule != "M2" || f[0].Direction != c.dead || f[1].Direction != c.other {
				t.Errorf("findings %+v", f)
			}
		})
	}
}

// TestTruthOfRules plants limits in labs, and demands that each is the first finding
// of its direction, at the right host, and that a clean path has none.
func TestTruthOfRules(t *testing.T) {
	needLab(t)
	for _, c := range []struct {
		name, spec string
		flags      []string
		rule, host string
	}{
		{"clean", "rate=50mbit,rtt=10ms", nil, "ceiling", "near"},
		{"send buffer", "rate=200mbit,rtt=20ms,near.tcp.send_buffer_max=64KiB", nil, "B08", "near"},
		{"scaling off at the receiver", "rate=200mbit,rtt=20ms,far.tcp.window_scaling=0", nil, "B09", "far"},
		{"scaling off at the sender", "rate=200mbit,rtt=20ms,near.tcp.window_scaling=0", nil, "B09", "near"},
		{"loss", "rate=200mbit,rtt=20ms,loss=0.3%", []string{"-C", "cubic", "-t", "5s"}, "B10", "near"},
		{"slower stage", "rate=100mbit,rtt=5ms,bus=40mbit", []string{"-t", "4s"}, "B06", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			labtest.Try(t, func() string {
				args := append([]string{"test", "lab:" + c.spec, "--to", "-t", "3s", "--omit", "1s", "--idle", "0s", "--json", "-q"}, c.flags...)
				f := decode[document](t, succeed(t, args...).out).Session.Findings
				if len(f) == 0 || f[0].Rule != c.rule || f[0].Host != c.host {
					return fmt.Sprintf("findings %+v, want %s of %q first", f, c.rule, c.host)
				}
				for _, other := range f[1:] {
					if other.Kind != "beside" || c.rule == "ceiling" {
						return fmt.Sprintf("%+v is said too", other)
					}
				}
				return ""
			})
		})
	}
}

// TestFirstHour23LabExitCode: the exit code of a program in a lab is that of the lab, and 128
// and the number of the signal that ended it.
func TestFirstHour23LabExitCode(t *testing.T) {
	needLab(t)
	for program, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137} {
		if r := run(t, command(t, "lab", "lan", "--", "sh", "-c", program)); r.code != want || r.err != "" {
			t.Errorf("%s: exit code %d, want %d\n%s", program, r.code, want, r.err)
		}
	}
}
