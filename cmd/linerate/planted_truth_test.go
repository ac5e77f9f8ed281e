//go:build truth && linux

package main

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	planted "linerate/internal/lab/faults"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfFaults: for some kinds of planted limits, drawn from seeds, the first finding of
// each direction is right. make judge checks all kinds.
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

// small returns the first case of a kind that a busy machine can carry and that the quick check
// covers.
func small(kind string) (planted.Case, bool) {
	for seed := range uint64(200) {
		c, ok := planted.Of(kind, seed)
		if ok && c.Check && !slices.ContainsFunc(c.Labels, func(l planted.Label) bool { return carries(l) > 60e6 }) {
			return c, true
		}
	}
	return planted.Case{}, false
}

// carries returns what a direction carries with its plant, if there is a formula.
func carries(l planted.Label) float64 {
	if l.Bound > 0 {
		return float64(l.Bound)
	}
	return float64(l.Ceiling)
}

// firstIsRight requires that the first finding of each direction of a case is right.
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

// TestTruthOfReceiveWindow plants a small receive buffer and requires that it is found, blamed
// on the right host, and that its implied rate is close to the measured one.
func TestTruthOfReceiveWindow(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "test", "lab:rate=1gbit,rtt=10ms,far.tcp.recv_buffer_max=64KiB", "--to", "-t", "2s", "--json", "-q")
		d := decode[document](try, r.out)
		must.Need(try, len(d.Session.Findings) != 0, "no finding")
		f := d.Session.Findings[0]
		must.True(try, f.Limit == "receive window" && f.Host == "far" && f.Direction == "to",
			"found %q of host %s in direction %s, want the receive window of the far host", f.Limit, f.Host, f.Direction)
		try.Claim("what the window allows", float64(f.Implied.Or(0))/median(d.goodput("to")), 0.85, 1.15, "times the goodput")
	})
}

// TestTruthOfRules plants limits in labs, and requires that each is the first finding of its
// direction, at the right host, and that a clean path has none.
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
				must.Need(try, len(f) != 0 && f[0].Rule == c.rule && f[0].Host == c.host, "findings %+v, want %s of %q first", f, c.rule, c.host)
				for _, other := range f[1:] {
					must.True(try, other.Kind == "beside" && c.rule != "ceiling", "%+v is found too", other)
				}
			})
		})
	}
}

// TestTruthOfClosingSentences: the last sentence of linerate test names what was planted, and
// nothing else.
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
				last := words(out[max(i, 0):]) // the sentence may span lines
				must.True(try, i >= 0 && strings.Contains(last, c.says) && strings.Contains(last, c.next),
					"%q and %q are not in the last sentence:\n%s", c.says, c.next, out)
				must.True(try, c.says == "nothing to tune" || !strings.Contains(last, "nothing to tune"), "a full path is reported too:\n%s", out)
			})
		})
	}
}

// TestFirstHour22LossAdvice: reported losses come with advice.
func TestFirstHour22LossAdvice(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "test", "lab:rate=100mbit,rtt=20ms,loss=1%", "-C", "reno", "--to", "-t", "3s", "--omit", "500ms", "-q")
		for _, word := range []string{"loss", "cable", "optics", "duplex", "Wi-Fi"} {
			must.True(try, strings.Contains(words(r.out), word), "no %q in the advice:\n%s", word, r.out)
		}
	})
}

// TestTuneStaysUntilTheNextStart: the user answers once to keep it until the next start, and it
// stays after linerate has ended; linerate undo undoes it.
func TestTuneStaysUntilTheNextStart(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		tt := onTerminal(try, pairInLab(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB",
			"show before; $LR tune --from \"$near\" \"$far\" $brisk --quick; gone; show after; LINERATE_STATE=$DIR/b $there $LR undo; show undone\n"))
		must.Until(try, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it?") })
		must.Get(tt.master.WriteString("s\n"))(try)
		r := tt.wait(try, patience)
		for _, want := range []string{"before: near 4194304 far 32768", "after: near 4194304 far 524288", "undone: near 4194304 far 32768"} {
			must.Contain(try, r.out, want, "not said")
		}
		must.Equal(try, strings.Count(r.out, "keep it?"), 1, "it asks more than once")
		if try.Failed() {
			try.Log(r.out)
		}
	})
}

// TestTunePermanently: the user answers once to keep it permanently and agrees to the file that
// is shown, which is then written; undo undoes both.
func TestTunePermanently(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		tt := onTerminal(try, pairInLab(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", `
	$LR tune --from "$near" "$far" $brisk --quick; gone; show after; cat /etc/sysctl.d/*linerate*
	LINERATE_STATE=$DIR/b $there $LR undo --kept; echo left: $(ls /etc/sysctl.d)
	`))
		for _, ask := range []struct{ shown, answer string }{{"keep it?", "p\n"}, {"write these files on", "y\n"}} {
			must.Until(try, ask.shown, func() bool { return strings.Contains(tt.shown.String(), ask.shown) })
			must.Get(tt.master.WriteString(ask.answer))(try)
		}
		r := tt.wait(try, patience)
		for _, want := range []string{"after: near 4194304 far ", "net.ipv4.tcp_rmem = ", "left:\r\n"} {
			must.Contain(try, r.out, want, "not said")
		}
		must.True(try, !strings.Contains(r.out, "after: near 4194304 far 32768") && !strings.Contains(r.out, "from the next start\r\n") && strings.Count(r.out, "keep it?") == 1, "it does not hold, or it asks more than once")
		if try.Failed() {
			try.Log(r.out)
		}
	})
}

// TestTuneAsAProfile: the user chooses a profile: a file with the evidence, and the hosts are
// restored.
func TestTuneAsAProfile(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		tt := onTerminal(try, pairInLab(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB",
			`$LR tune --from "$near" "$far" $brisk --quick; gone; show after; cat linerate-*.yaml; ls /etc/sysctl.d`))
		must.Until(try, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it?") })
		must.Get(tt.master.WriteString("f\n"))(try)
		r := tt.wait(try, patience)
		for _, want := range []string{"after: near 4194304 far 32768", "saved linerate-", "tcp.recv_buffer_max:", "verdicts:", "outcome: better"} {
			must.Contain(try, r.out, want, "not said")
		}
		if try.Failed() {
			try.Log(r.out)
		}
	})
}

// TestTuneKilledInEveryPhase kills linerate while a race, a trimming, the search for smaller
// values, and the proof have changed a host: each time the host restores itself, and the search
// resumes with the next phase.
func TestTuneKilledInEveryPhase(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := run(try, pairInLab(try, "rate=50mbit,rtt=20ms,near.tcp.send_buffer_max=32KiB,far.tcp.recv_buffer_max=32KiB", killPhases))
		for _, phase := range []string{"before", "race", "trim", "plateau", "proof"} {
			must.Contain(try, r.out, phase+": near 32768 far 32768\n", "after %s a host is changed, or it did not come", phase)
		}
		must.Need(try, !try.Failed() && !strings.Contains(r.out, "still there"), "%v", r.out+r.err)
	})
}

const killPhases = `
killed() { # PHASE TEXT FLAGS...: kills it when the text is there and a host is changed
	phase=$1 text=$2; shift 2
	$LR tune --from "$near" "$far" $brisk "$@" 2>$DIR/$phase >/dev/null & pid=$!
	i=0
	until grep -q "$text" $DIR/$phase && [ "$(show x)" != "x: near 32768 far 32768" ]; do
		i=$((i+1)); [ $i -gt 1500 ] && { echo "$phase never came"; cat $DIR/$phase; break; }
		kill -0 $pid 2>/dev/null || { echo "$phase: it ended"; cat $DIR/$phase; break; }
		sleep 0.1
	done
	kill -9 $pid; wait $pid 2>/dev/null; gone; show $phase
}
show before
killed race 'trying to '
killed trim 'is all of it needed' --resume last
killed plateau 'would less do' --resume last
killed proof 'proving in fresh blocks' --resume last
`

// TestTruthOfStories runs every command of the stories: it exits as the page says, and prints the
// page's lines, with other numbers.
func TestTruthOfStories(t *testing.T) {
	needLab(t)
	for page, story := range stories(t) {
		t.Run(page, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				db := filepath.Join(try.TempDir(), "r.db")
				for _, c := range story {
					r := run(try, command(try, append(shellFields(c.command)[1:], "--db", db)...))
					must.True(try, r.code == c.code, "%s: exit code %d, want %d\n%s%s", c.command, r.code, c.code, r.out, r.err)
					got := shape(r.out + "\n" + r.err)
					for _, want := range c.lines {
						must.Contain(try, got, shape(want), "%s does not say %q: %s%s", c.command, want, r.out, r.err)
					}
				}
				if page == "slow-gigabit.md" {
					windowHelps(try, db)
				}
			})
		})
	}
}

// shellFields returns the words of a command, some of which are in quotes.
func shellFields(command string) (out []string) {
	for _, w := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(command, -1) {
		out = append(out, strings.Trim(w, `"`))
	}
	return out
}

// windowHelps requires what the page claims of a story's experiment, its last session: the
// larger MTU alone brings little, the larger window at least doubles the goodput.
func windowHelps(try *truth.Try, db string) {
	experiment, _ := search(try, db)
	times := map[string]float64{}
	for _, v := range experiment.Verdicts {
		if v.Metric != model.Goodput {
			continue
		}
		times[v.Setting] = math.Exp(v.Estimate)
		must.True(try, v.Outcome == model.Better || !strings.HasSuffix(v.Setting, "recv_buffer_max=1MiB"), "%s is %s", v.Setting, v.Outcome)
	}
	const unit = "times the goodput of 1500 B and the small window"
	try.Claim("the larger MTU alone", times["mtu=9000 recv_buffer_max=64KiB"], 0.1, 1.5, unit)
	try.Claim("the larger window", times["mtu=1500 recv_buffer_max=1MiB"], 2, math.Inf(1), unit)
	try.Claim("both", times["mtu=9000 recv_buffer_max=1MiB"], 2, math.Inf(1), unit)
}
