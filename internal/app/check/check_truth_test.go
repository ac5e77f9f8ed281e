//go:build truth && linux

package check_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"linerate/internal/app/check"
	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/lab"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// line returns the line about a thing in direction d.
func line(lines []health.Line, thing string, d model.Direction) health.Line {
	i := slices.IndexFunc(lines, func(l health.Line) bool { return l.Thing == thing && l.Direction == d })
	if i < 0 {
		return health.Line{}
	}
	return lines[i]
}

// judge fails t for each line with another state than want, and for an error of another kind.
func judge(t testing.TB, s model.Session, err error, kind fault.Kind, want map[string]health.State) {
	t.Helper()
	lines := health.Judge(&s)
	for key, state := range want {
		thing, d, _ := strings.Cut(key, " ")
		l := line(lines, thing, model.Direction(d))
		must.True(t, l.State == state, "%s is %s (%s, %s), not %s", key, l.State, l.Number, l.Text, state)
	}
	must.True(t, (kind >= 0 || err == nil) && (kind < 0 || err != nil && fault.KindOf(err) == kind), "error %v", err)
}

// nothing means no fault.
const nothing fault.Kind = -1

// TestCleanPath: on a clean path every line is ok or unseen, and there is no error; all parts
// of a full check were measured.
func TestCleanPath(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s, err := looked(try, "rate=50mbit,rtt=4ms", check.Request{Expect: "40M,loss<1%,mtu>=1500", For: "40mbit@20ms", Disk: true})
		judge(try, s, err, nothing, map[string]health.State{
			"reach": health.OK, "mtu to": health.OK, "mtu from": health.OK, "speed to": health.OK, "speed from": health.OK,
			"loss to": health.OK, "loss from": health.OK, "queueing to": health.OK, "link": health.OK, "disk to": health.OK, "disk from": health.OK, "options": health.OK, "clock": health.OK,
		})
		must.True(try, len(s.Check.Own) == 2 && !(s.Check.Own[0].Rate.Or(0) < 50e6) && !(s.Check.Own[1].Rate.Or(0) < 50e6),
			"what the hosts move to themselves: %+v", s.Check.Own)
		for _, w := range s.Check.Ways {
			must.True(try, w.Datagrams.Or(0) == 1500 && w.Passes.Or(0) == 1500 && w.Marks.Or(0) == 1, "what passes: %+v", w)
		}
		_, ok := valueOf(s, model.Both)
		must.True(try, ok, "both directions at once were not measured")
		err = check.Verdict(&model.Session{Check: &model.Check{Expect: "60M"}, Runs: s.Runs, Plan: s.Plan, Hosts: s.Hosts})
		must.True(try, fault.KindOf(err) == fault.Unmet && strings.Contains(err.Error(), "60M"), "60 Mbit/s of 50: %v", err)
		for _, h := range s.Hosts {
			must.True(try, len(h.Path) != 0 && h.Path[0].Name == "eth0", "the path of %s: %+v", h.Host, h.Path)
		}
	})
}

func valueOf(s model.Session, d model.Direction) (model.Run, bool) {
	for _, r := range s.Runs {
		if r.Flow.Direction == d && r.State == model.RunValid {
			return r, true
		}
	}
	return model.Run{}, false
}

// TestSmallWindow: a small receive window makes one direction POOR, and the report names it
// as the limit.
func TestSmallWindow(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s, err := looked(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=64KiB", check.Request{Quick: true})
		judge(try, s, err, fault.Found, map[string]health.State{"speed to": health.Poor, "speed from": health.OK, "mtu to": health.OK})
		must.True(try, slices.ContainsFunc(s.Findings, func(f model.Finding) bool {
			return f.Direction == model.To && f.Limit == "receive window" && f.Host == model.Far
		}), "the window is not named: %+v", s.Findings)
	})
}

// TestQuota: a CPU quota of the far host is named.
func TestQuota(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s, _ := looked(try, "rate=1gbit,far.cpu.quota=20%", check.Request{Quick: true}) // the findings depend on this machine's speed
		must.Contain(try, line(health.Judge(&s), "cpu", "").Text, "a quota of 0.2 processors at ")
	})
}

// TestBlackHoles: larger packets of one direction vanish silently. The direction is BAD with
// the size that passes, and the other one is measured all the same.
func TestBlackHoles(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		key, back := "to", model.From
		if d == model.From {
			key, back = "from", model.To
		}
		t.Run(string(d), func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				s, err := looked(try, "rate=50mbit,rtt=2ms,"+key+".pathmtu=1300", check.Request{Quick: true})
				judge(try, s, err, fault.Found, map[string]health.State{
					"reach": health.Bad, "mtu " + string(d): health.Bad, "speed " + string(d): health.Bad, "mtu " + string(back): health.OK, "speed " + string(back): health.OK,
				})
				l := line(health.Judge(&s), "mtu", d)
				for _, w := range s.Check.Ways {
					want := map[bool]int{true: 1300, false: 1500}[w.Direction == d]
					must.True(try, w.Datagrams.Or(0) == want && w.Passes.Or(0) == want, "%d pass: %+v", want, w)
				}
				must.True(try, strings.Contains(l.Text, "this way only") && l.Number == "1300" &&
					strings.Contains(l.Text, "segments of 1160 bytes arrive"), "%+v", l)
			})
		})
	}
}

// TestRandomLoss: a path that a flow fills despite its losses is BAD, not ok.
func TestRandomLoss(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s, err := looked(try, "rate=100mbit,rtt=10ms,loss=2%", check.Request{Quick: true})
		judge(try, s, err, fault.Found, map[string]health.State{"loss to": health.Bad, "loss from": health.Bad})
	})
}

// TestUnevenPath: each direction is compared with its own ceiling.
func TestUnevenPath(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		s, err := looked(try, "to.rate=5mbit,from.rate=50mbit,rtt=10ms,queue=40KiB", check.Request{Quick: true, Expect: "to.goodput>4M,from.goodput>40M,p99<1s"})
		judge(try, s, err, nothing, map[string]health.State{"speed to": health.OK, "speed from": health.OK, "reach": health.OK})
	})
}

// TestAlone: a virtual host and its gateway, the other host, which answers, and then drops
// packets as large as the interface sends.
func TestAlone(t *testing.T) {
	for text, want := range map[string][]string{
		"rate=1gbit,rtt=1ms":                 {"gateway ok ", "mtu ok 1500 ", "errors ok 0 now", "buffers ok ", "hop neighbour "},
		"rate=1gbit,rtt=1ms,to.pathmtu=1400": {"error: found: mtu BAD", "gateway ok ", "mtu BAD 1400 "},
	} {
		spec := must.Get(lab.ParseSpec(text))(t)
		l, err := lab.Start(t.Context(), spec, lab.Config{Command: []string{"/proc/self/exe", "lab-init"}, Stderr: os.Stderr})
		must.SkipIf(t, errors.Is(err, fs.ErrPermission), "virtual hosts need user namespaces or root: %v", err)
		must.Do(t, err)
		t.Cleanup(func() { _ = l.Close() })
		var said strings.Builder
		err = l.Command(t.Context(), model.Near, []string{"ip", "route", "add", "default", "via", l.Addr(model.Far).String()}, nil, &said, &said)
		must.Need(t, err == nil, "no default route: %v, %s", err, said.String())
		truth.Hold(t, truth.Tries, func(try *truth.Try) {
			said.Reset()
			must.Do(try, l.Command(t.Context(), model.Near, []string{"/proc/self/exe", "alone"}, nil, &said, os.Stderr))
			for _, part := range want {
				must.Contain(try, said.String(), part)
			}
		})
	}
}
