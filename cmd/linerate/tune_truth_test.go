//go:build truth && linux

package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/tune"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/store/sqlite"
	"linerate/internal/truth"
)

// tuned is the document of linerate tune.
type tuned struct {
	report.Tuned
	Record tune.Record `json:"record"`
	Next   []string    `json:"next"`
}

// brisk returns the flags of a search that is short enough for a test.
func brisk(more ...string) []string {
	return append([]string{"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5"}, more...)
}

// TestTuneFindsTheWindow is the closed loop with everything real: a window of 32 KiB over 20 ms
// carries 13 of the 50 Mbit/s. The setting of the far host is named, tried, proven by a factor,
// and neither host is left changed; the search and its proof are stored and shown again.
func TestTuneFindsTheWindow(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		db := try.TempDir() + "/r.db"
		host := "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB"
		text := succeed(try, append([]string{"tune", host, "--quick", "--json", "--db", db}, brisk()...)...).out
		must.OK(try, validate("linerate/tune/v1", text))
		got := decode[tuned](try, text)
		must.True(try, got.Proven && len(got.Next) == 1 && strings.Contains(got.Headline, "far.tcp.recv_buffer_max 32KiB -> ") &&
			len(got.Gains) == 1 && strings.Contains(got.Gains[0], " times "), "%+v", got.Tuned)
		must.True(try, len(got.Record.Winner.Assignments) == 1 && got.Record.Winner.Assignments[0].Knob == "tcp.recv_buffer_max" &&
			got.Record.Winner.Assignments[0].Host == model.Far, "winner %+v", got.Record.Winner)
		again := succeed(try, "show", got.Session, "--db", db).out
		for _, want := range []string{got.Headline, got.Gains[0][:20]} {
			must.Contain(try, again, want, "show")
		}
		must.Contain(try, succeed(try, "show", got.Proof, "--details", "--db", db).out, "better", "the proof")
	})
}

// TestTuneLeavesAloneWhatIsFull: a full path needs no tuning, and no run with a changed host is
// made; a dry run only says what would be tried.
func TestTuneLeavesAloneWhatIsFull(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		got := decode[tuned](try, succeed(try, append([]string{"tune", "lab:rate=20mbit,rtt=5ms", "--json", "--db", ":memory:"}, brisk()...)...).out)
		must.True(try, !got.Proven && len(got.Record.Winner.Assignments) == 0 && got.Record.Runs <= 0, "%+v", got)
		got = decode[tuned](try, succeed(try, append([]string{"tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", "--dry-run", "--json", "--db", ":memory:"}, brisk()...)...).out)
		must.True(try, len(got.Ideas) != 0 && got.Ideas[0].State == tune.Waiting && got.Record.Runs <= 0, "dry run: %+v", got.Tuned)
	})
}

// TestTuneIsCutShort ends a search during a race, by Ctrl-C and by kill -9: its results are
// stored, and it resumes from there to its end. TestInterrupt and TestCrash check that the
// hosts are restored.
func TestTuneIsCutShort(t *testing.T) {
	needLab(t)
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "kill -9": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) { truth.Hold(t, truth.Tries, func(try *truth.Try) { cutShort(try, signal) }) })
	}
}

func cutShort(t testing.TB, signal syscall.Signal) {
	db := t.TempDir() + "/r.db"
	args := append([]string{"tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", "--quick", "--db", db}, brisk()...)
	p := start(t, command(t, args...))
	must.Until(t, "a race", func() bool { return strings.Contains(p.complaints(), "trying to ") })
	p.signal(t, signal)
	r := p.wait(t, patience)
	s, rec := search(t, db)
	must.Need(t, s.Kind == model.KindTune && len(rec.Inputs) == 1 && len(rec.Ideas) != 0, "session of kind %s, %d inputs", s.Kind, len(rec.Inputs))
	must.True(t, signal != syscall.SIGINT || strings.Contains(r.err, "linerate tune --resume "+s.ID), "it does not say how to go on: %s", r.err)
	p = start(t, command(t, append([]string{"tune", "--resume", s.ID, "--db", db}, brisk("--quick")...)...))
	must.Until(t, "the proof", func() bool { return strings.Contains(p.complaints(), "proving in fresh blocks") })
	p.signal(t, syscall.SIGINT)
	p.wait(t, patience)
	now, went := search(t, db, s.ID)
	must.True(t, now.State == model.SessionDone && len(went.Inputs) >= 3 && len(went.Winner.Assignments) != 0 &&
		went.Confirmation != "" && len(went.Inputs[0].Look.Ideas) == len(rec.Inputs[0].Look.Ideas),
		"%s: %s, %+v", now.ID, now.State, went)
}

// search reads a search from the store, the newest session if none is named.
func search(t testing.TB, db string, id ...string) (model.Session, tune.Record) {
	t.Helper()
	st := must.Get(sqlite.Open(t.Context(), db))(t)
	s, err := st.Session(t.Context(), cmp.Or(strings.Join(id, ""), "last"))
	err = errors.Join(err, st.Close())
	must.Do(t, err)
	rec, _, err := tune.Read(&s)
	must.Do(t, err)
	return s, rec
}

// TestTuneForLatency: a sender that fills a deep queue delays all traffic. With the goal
// latency the report names the queue and gives the gain in latency, while a guard protects the
// rate.
func TestTuneForLatency(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		args := []string{"tune", "lab:rate=20mbit,rtt=20ms,queue=256KiB,near.tcp.congestion_control=reno", "--goal", "latency", "--only", "tcp.congestion_control", "--quick", "--json", "--db", ":memory:",
			"-t", "1s", "--omit", "1s", "--settle", "0s", "--direction", "to", "--seed", "5"}
		r := succeed(try, args...)
		got := decode[tuned](try, r.out)
		must.True(try, got.Proven && len(got.Gains) == 1 && strings.Contains(got.Gains[0], " % lower, at least ") &&
			len(got.Measured) == 2 && strings.Contains(got.Measured[0].Text, " ms ("), "%+v\n%s", got.Tuned, r.err)
		if rec := got.Record; rec.Options.Objective != model.LatencyP50 || len(rec.Inputs) == 0 || rec.Inputs[0].Look == nil ||
			!strings.Contains(rec.Inputs[0].Look.Limits[model.To], "wait in a queue on the way") {
			try.Errorf("what limits it: %+v", rec.Inputs[0].Look.Limits)
		}
		w := got.Record.Winner.Assignments
		must.True(try, len(w) != 0 && w[0].Knob != "link.mtu", "winner %+v", w)
	})
}

// TestTuneForCPU: packets of 1500 bytes cost the receiver more than those of 9000, which the
// path passes. A setting that can cut the connection is tried because it was allowed, and fresh
// blocks prove that each Gbit costs less while the rate stays.
func TestTuneForCPU(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		got := decode[tuned](try, succeed(try, "tune", "lab:rate=200mbit,rtt=2ms,mtu=9000,near.link.mtu=1500,far.link.mtu=1500", "--goal", "cpu", "--only", "link.mtu", "--quick", "--allow", "risky", "--json", "--db", ":memory:",
			"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5", "--guard", "goodput<10%").out)
		look := got.Record.Inputs[0].Look
		must.True(try, look != nil && strings.Contains(look.Limits[model.To], "each Gbit costs far "), "%+v", look)
		for _, a := range got.Record.Winner.Assignments {
			must.True(try, a.Knob == "link.mtu" && a.Value == "9000", "winner %+v", got.Record.Winner)
		}
		must.True(try, got.Proven && len(got.Gains) == 1 && strings.Contains(got.Gains[0], " % lower, at least ") &&
			len(got.Measured) == 2 && strings.Contains(got.Measured[0].Text, " of CPU for each Gbit ("), "%+v\n%+v", got.Tuned, got.Record.Ideas)
	})
}

// TestTuneStarvedFlow: a flow that is starved by its window leaves the deep queue of this path
// empty, so every fix raises its latency. With the default guards the fix is accepted, since
// other traffic is not affected at the earlier rate, and the report gives the latency of the
// full path beside the gain (statistics.md section 6.5).
func TestTuneStarvedFlow(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		got := decode[tuned](try, succeed(try, "tune", "lab:rate=20mbit,rtt=20ms,queue=1MiB,far.tcp.recv_buffer_max=32KiB,near.tcp.congestion_control=reno",
			"--quick", "--json", "--db", ":memory:", "-t", "2s", "--omit", "1s", "--settle", "0s", "--direction", "to", "--seed", "5").out)
		took := false
		for _, a := range got.Record.Winner.Assignments {
			took = took || a.Knob == "tcp.recv_buffer_max"
		}
		for _, f := range got.Record.Ideas {
			must.True(try, f.State != tune.Guarded, "%s was refused for %s", f.Levels, f.Detail)
		}
		must.True(try, took && got.Proven, "winner %+v, proven %v: %v", got.Record.Winner, got.Proven, got.Gains)
	})
}

// TestTuneDeadDirection: if nothing arrives there is nothing to tune, and the reason is given.
func TestTuneDeadDirection(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := run(try, command(try, append([]string{"tune", "lab:rate=50mbit,rtt=5ms,to.blackhole=200", "--quick", "--db", ":memory:"}, brisk()...)...))
		must.True(try, r.code != 0 && strings.Contains(r.out+r.err, "nothing arrive"), "exit code %d\n%s%s", r.code, r.out, r.err)
	})
}

// TestTuneThorough: the setting that the finding names may not be tried, so a thorough search
// goes on with the rest, several settings at a time: 16 runs show that none of them helps. A
// setting that cannot be set, such as a congestion control unavailable in a namespace, is
// identified by what the failed runs have in common, and the others are still screened. A dry
// run says what would be screened, and a search that is not thorough ends at once. Both fail.
func TestTuneThorough(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		args := []string{"tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_autotune=off,far.tcp.recv_buffer_initial=16KiB,near.tcp.limit_output=4096", "--never", "tcp.recv_autotune", "--json", "--db", ":memory:",
			"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5"}
		plan := decode[tuned](try, succeed(try, append(args, "--thorough", "--dry-run")...).out)
		p := strings.Join(plan.Plan, "\n")
		must.True(try, strings.HasPrefix(p, "1. where that leaves something to gain, several at a time") && strings.Contains(p, "near.tcp.limit_output=4194304"), "plan:\n%s", p)
		short := decode[tuned](try, run(try, command(try, args...)).ends(try, 8).out)
		must.True(try, short.Record.Runs == 0 && len(short.Ideas) == 1, "it is not thorough: %+v", short.Tuned)
		text := run(try, command(try, append(args, "--thorough")...)).ends(try, 8).out
		must.OK(try, validate("linerate/tune/v1", text))
		got := decode[tuned](try, text)
		screened := 0
		for _, f := range got.Record.Ideas {
			switch {
			case f.Blocks == 8 && f.State == tune.NoEffect && f.Detail == "screened":
				screened++
			case f.State == tune.Broke && (f.Levels != "near.tcp.congestion_control" || !strings.Contains(f.Detail, "permission denied")):
				try.Errorf("%+v", f)
			}
		}
		must.True(try, !got.Proven && got.Record.Runs >= 16 && screened >= 2, "%d settings screened: %+v", screened, got.Tuned)
	})
}

// TestTuneData: a search and its confirmation together send no more than allowed, except for
// the block in which the limit is reached; if that is too little for a proof, nothing is tried.
func TestTuneData(t *testing.T) {
	needLab(t)
	for _, c := range []struct {
		data     string
		most     float64 // bytes, with a block
		sessions int
	}{{"30MB", 30e6, 1}, {"100MB", 100e6 + 2*9.5e6, 2}} {
		t.Run(c.data, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				db := filepath.Join(try.TempDir(), "results.db")
				r := run(try, command(try, "tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", "--db", db, "-t", "1s", "--omit", "500ms", "--settle", "0s", "--direction", "to", "--seed", "5",
					"--quick", "--only", "far.tcp.recv_buffer_max", "--data", c.data))
				list := decode[struct {
					Sessions []struct{ ID string }
				}](try, succeed(try, "list", "--json", "--db", db).out)
				sent := 0.0
				st := must.Get(sqlite.Open(try.Context(), db))(try)
				defer st.Close()
				for _, one := range list.Sessions {
					s := must.Get(st.Session(try.Context(), one.ID))(try)
					sent += float64(plan.Payload(s.Runs))
					if s.Kind != model.KindTune {
						continue
					}
					err := validate("linerate/tune/v1", succeed(try, "show", one.ID, "--json", "--db", db).out)
					must.True(try, err == nil && s.Plan.Data != 0 && strings.Contains(string(s.Tuning), `"runs":`), "%v: %s", err, s.Tuning)
				}
				try.Claim("sent of "+c.data, sent/1e6, 0, c.most/1e6, "MB")
				must.True(try, len(list.Sessions) == c.sessions && (c.sessions != 1 || strings.Contains(r.out+r.err, "the budget is spent")), "%d sessions sent %.1f MB\n%s%s", len(list.Sessions), sent/1e6, r.out, r.err)
			})
		})
	}
}
