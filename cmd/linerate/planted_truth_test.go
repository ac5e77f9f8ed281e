//go:build truth && linux

package main

import (
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	planted "linerate/internal/lab/faults"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfFaults: of some kinds of planted limits, drawn from seeds, the first finding
// of each direction is right. make judge looks at all of them.
func TestTruthOfFaults(t *testing.T) {
	needLab(t)
	for _, name := range []string{"clean", "receive-window", "send-buffer", "scaling-off-receiver", "black-hole", "own-shaper"} {
		t.Run(name, func(t *testing.T) {
			c, ok := small(name)
			must.Need(t, ok, "no seed stands for a small lab of this kind")
			truth.Hold(t, truth.Tries, func(try *truth.Try) { firstIsRight(try, c) })
		})
	}
}

// small returns the first case of a kind that a busy machine carries, and that the quick
// check looks at.
func small(kind string) (planted.Case, bool) {
	for seed := range uint64(200) {
		c, ok := planted.Of(kind, seed)
		if ok && c.Check && !slices.ContainsFunc(c.Labels, func(l planted.Label) bool { return carries(l) > 60e6 }) {
			return c, true
		}
	}
	return planted.Case{}, false
}

// carries returns what a direction carries with its plant, as far as there is a formula.
func carries(l planted.Label) float64 {
	if l.Bound > 0 {
		return float64(l.Bound)
	}
	return float64(l.Ceiling)
}

// firstIsRight demands that the first finding of each direction of a case is right.
func firstIsRight(t testing.TB, c planted.Case) {
	t.Helper()
	r := run(t, command(t, "check", "--quick", "lab:"+c.Spec, "--json=full", "-q"))
	findings := decode[document](t, r.out).Session.Findings
	for _, l := range c.Labels {
		i := slices.IndexFunc(findings, func(f model.Finding) bool { return f.Direction == l.Direction })
		if i < 0 {
			t.Errorf("%s: no finding in direction %s (exit code %d)", c.Spec, l.Direction, r.code)
			continue
		}
		f := findings[i]
		must.True(t, slices.ContainsFunc(l.First, func(a planted.Answer) bool { return a.Is(f.Rule, f.Host) }), "%s: the first finding %s is %s of %q (%s), want one of %v", c.Spec, l.Direction, f.Rule, f.Host, f.Evidence, l.First)
	}
}

// TestTruthOfReceiveWindow plants a small receive ceiling and demands that it is found,
// blamed on the right host, and that its implied rate is near the measured one.
func TestTruthOfReceiveWindow(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "test", "lab:rate=1gbit,rtt=10ms,far.tcp.recv_buffer_max=64KiB", "--to", "-t", "2s", "--json", "-q")
		d := decode[document](try, r.out)
		must.Need(try, len(d.Session.Findings) != 0, "no finding")
		f := d.Session.Findings[0]
		if f.Limit != "receive window" || f.Host != "far" || f.Direction != "to" {
			try.Errorf("found %q of host %s in direction %s, want the receive window of the far host", f.Limit, f.Host, f.Direction)
		}
		try.Claim("what the window allows", float64(f.Implied.Or(0))/median(d.goodput("to")), 0.85, 1.15, "times the goodput")
	})
}

// TestTruthOfRules plants limits in labs, and demands that each is the first finding of
// its direction, at the right host, and that a clean path has none.
func TestTruthOfRules(t *testing.T) {
	needLab(t)
	for _, c := range []struct {
		name, spec string
		flags      []string
		rule       string
		host       model.Host
	}{
		{"clean", "rate=50mbit,rtt=10ms", nil, "ceiling", "near"},
		{"send buffer", "rate=200mbit,rtt=20ms,near.tcp.send_buffer_max=64KiB", nil, "B08", "near"},
		{"scaling off at the receiver", "rate=200mbit,rtt=20ms,far.tcp.window_scaling=0", nil, "B09", "far"},
		{"scaling off at the sender", "rate=200mbit,rtt=20ms,near.tcp.window_scaling=0", nil, "B09", "near"},
		{"loss", "rate=200mbit,rtt=20ms,loss=0.3%", []string{"-C", "cubic", "-t", "5s"}, "B10", "near"},
		{"slower stage", "rate=100mbit,rtt=5ms,bus=40mbit", []string{"-t", "4s"}, "B06", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				args := append([]string{"test", "lab:" + c.spec, "--to", "-t", "3s", "--omit", "1s", "--idle", "0s", "--json", "-q"}, c.flags...)
				f := decode[document](try, succeed(try, args...).out).Session.Findings
				if len(f) == 0 || f[0].Rule != c.rule || f[0].Host != c.host {
					try.Fatalf("findings %+v, want %s of %q first", f, c.rule, c.host)
				}
				for _, other := range f[1:] {
					must.True(try, other.Kind == "beside" && c.rule != "ceiling", "%+v is found too", other)
				}
			})
		})
	}
}

// TestTruthOfClosingSentences: the last sentence of linerate test names what was planted,
// and nothing else.
func TestTruthOfClosingSentences(t *testing.T) {
	needLab(t)
	for name, c := range map[string]struct{ spec, says, next string }{
		"receive window": {"rate=100mbit,rtt=20ms,far.tcp.recv_buffer_max=65536", "held back by the receive window of ", "tcp.recv_buffer_max"},
		"send buffer":    {"rate=100mbit,rtt=20ms,near.tcp.send_buffer_max=65536", "held back by the send buffer of ", "tcp.send_buffer_max"},
		"window scaling": {"rate=100mbit,rtt=40ms,far.tcp.window_scaling=0", "held back by the receive window of ", "announced no window scale could help: tcp.window_scaling"},
		"loss":           {"rate=50mbit,rtt=20ms,loss=0.5%,near.tcp.congestion_control=reno", "held back by packet loss", ""},
		"slow stage":     {"rate=100mbit,rtt=10ms,stage=20mbit", "the limit lies outside both hosts: a slower stage on the path", ""},
		"nothing":        {"rate=50mbit,rtt=5ms", "nothing to tune", ""},
	} {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				out := succeed(try, "test", "lab:"+c.spec, "--to", "-t", "4s", "--omit", "1s", "--idle", "0s").out
				i := strings.LastIndex(out, "\n  to ")
				last := words(out[max(i, 0):]) // the sentence may go on in the next lines
				if i < 0 || !strings.Contains(last, c.says) || !strings.Contains(last, c.next) {
					try.Errorf("%q and %q are not in the last sentence:\n%s", c.says, c.next, out)
				}
				if c.says != "nothing to tune" && strings.Contains(last, "nothing to tune") {
					try.Errorf("a full path is reported too:\n%s", out)
				}
			})
		})
	}
}

// TestFirstHour22LossAdvice: beside losses stands what a person can do.
func TestFirstHour22LossAdvice(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "test", "lab:rate=100mbit,rtt=20ms,loss=1%", "-C", "reno", "--to", "-t", "3s", "--omit", "500ms", "-q")
		for _, word := range []string{"loss", "cable", "optics", "duplex", "Wi-Fi"} {
			must.True(try, strings.Contains(words(r.out), word), "no %q in the advice:\n%s", word, r.out)
		}
	})
}
