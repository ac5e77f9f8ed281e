//go:build truth && linux

package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/truth"
)

// verdict returns the session's verdict on a setting in one metric.
func (d document) verdict(t testing.TB, setting string, m model.Metric) model.Verdict {
	t.Helper()
	for _, v := range d.Session.Verdicts {
		if v.Setting == setting && v.Metric == m {
			return v
		}
	}
	t.Fatalf("no verdict on %s of %s in %+v", m, setting, d.Session.Verdicts)
	return model.Verdict{}
}

// row returns the report's row for it.
func (d document) row(t testing.TB, setting string, m model.Metric) report.Row {
	t.Helper()
	for _, table := range d.Report.Tables {
		for _, r := range table.Rows {
			if table.Metric == m && r.Setting == setting {
				return r
			}
		}
	}
	t.Fatalf("no row on %s of %s", m, setting)
	return report.Row{}
}

// deepPlan compares two receive buffers over a deep queue: with the larger one a flow fills the
// link and the queue, the smaller one starves it.
const deepPlan = `title: a deep queue
far: lab:rate=50mbit,rtt=20ms,queue=2MiB
flow: {engine: loaded, duration: 1s, omit: 1s, interval: 200ms, congestion: reno}
objective: p99
settings:
  - {name: deep, set: {far.tcp.recv_buffer_max: 800KiB}}
  - {name: starved, set: {far.tcp.recv_buffer_max: 64KiB}}
baseline: deep
settle: 50ms
`

// TestGuardRefusesAStarvedFlow: a setting that removes three quarters of the latency under
// load, and two thirds of the goodput, is better, but its guard refuses it, in words, in JSON,
// and in keep.
func TestGuardRefusesAStarvedFlow(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		dir := try.TempDir()
		plan, db := filepath.Join(dir, "deep.yaml"), filepath.Join(dir, "results.db")
		must.Do(try, os.WriteFile(plan, []byte(deepPlan), 0o600))
		r := run(try, command(try, "run", plan, "--json", "--db", db)).succeeds(try)
		for _, want := range []string{"99th percentile of latency decides", "goodput less than 10 % lower"} {
			must.Contain(try, r.err, want, "before the first run stderr has")
		}
		d := decode[document](try, r.out)
		p99, goodput := d.verdict(try, "starved", model.LatencyP99), d.verdict(try, "starved", model.Goodput)
		try.Logf("p99 %s by %.3f, goodput %.3f, guard %s, %d blocks", p99.Outcome, p99.Estimate, goodput.Estimate, goodput.Guard.State, p99.Blocks)
		try.Claim("latency of the starved flow", math.Exp(-p99.Estimate), 0.1, 0.4, "times")
		try.Claim("its goodput", math.Exp(goodput.Estimate), 0.2, 0.5, "times")
		must.Need(try, p99.Outcome == model.Better && goodput.Guard.State == model.GuardViolated && goodput.Guard.Default, "the latency is %s, the guard on the goodput %s", p99.Outcome, goodput.Guard.State)
		row := d.row(try, "starved", model.LatencyP99)
		must.True(try, strings.HasPrefix(row.Words, "better") && strings.Contains(row.Words, ", but goodput ") && len(row.Refused) != 0,
			"the report says %q, refused by %q", row.Words, row.Refused)
		must.True(try, len(d.Report.Noise) == 1 && !d.Report.Noise[0].Checked, "noise %+v, want pairs that check nothing", d.Report.Noise)
		keep := []string{"keep", d.Session.ID, "--db", db, "--role", "receiver", "--dry-run"}
		run(try, command(try, keep...)).ends(try, 2, "refused by its guards", "goodput", "--despite-guards")
		wished := run(try, command(try, append(keep, "--despite-guards")...))
		must.True(try, wished.code != 2 && !strings.Contains(wished.err, "refused by its guards") && strings.Contains(wished.err, "kept despite its guards"), "keep --despite-guards: exit code %d\n%s", wished.code, wished.err)
	})
}

// requestPlan compares two windows: one needs more round trips for a request than the other.
const requestPlan = `title: requests of 64 KiB
far: lab:rate=100mbit,rtt=20ms
flow: {engine: reqresp, duration: 600ms, omit: 300ms, block: 64KiB, reply: 100B}
settings:
  - {name: small, set: {window: 24KiB}}
  - {name: large, set: {window: 256KiB}}
baseline: small
settle: 0s
`

// TestRequestsDecideOnLatency: a plan of requests has no goodput; a window that halves the time
// of a request is better, and is shown as lower.
func TestRequestsDecideOnLatency(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		plan := filepath.Join(try.TempDir(), "requests.yaml")
		must.Do(try, os.WriteFile(plan, []byte(requestPlan), 0o600))
		d := decode[document](try, run(try, command(try, "run", plan, "--json")).succeeds(try).out)
		v, row := d.verdict(try, "large", model.LatencyP50), d.row(try, "large", model.LatencyP50)
		try.Logf("median latency %s by %.3f after %d blocks: %s; %s", v.Outcome, v.Estimate, v.Blocks, row.ChangeText, row.Words)
		must.Equal(try, d.Session.Plan.Objective, model.LatencyP50, "decides")
		try.Claim("time of a request with the large window", math.Exp(-v.Estimate), 0.35, 0.65, "times")
		must.Need(try, v.Outcome == model.Better && strings.HasPrefix(row.Words, "better"), "the latency is %s (%s)", v.Outcome, row.Words)
		must.True(try, !(row.Change >= 0) && (strings.HasSuffix(row.ChangeText, " lower") || strings.HasPrefix(row.ChangeText, "0.")),
			"half the latency is shown as %q, %v", row.ChangeText, row.Change)
	})
}

// TestFirstHour02CurrentMayBeBest: if the unchanged hosts beat every level, no level is
// recommended.
func TestFirstHour02CurrentMayBeBest(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, inSeconds("--factor", "window=4KiB,8KiB", "--blocks", "6", "--no-twin", "-q")...)
		must.True(try, !strings.Contains(r.out, "is the smallest level") && !strings.Contains(r.out, "linerate keep"),
			"a level is recommended that is worse than what is there:\n%s", r.out)
		has(try, "the conclusion", r.out, "leave it as it is: current is within")
	})
}

// TestFirstHour04SixBlocksDecide: six blocks of one setting end with a verdict.
func TestFirstHour04SixBlocksDecide(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := succeed(try, "run", "lab:rate=50mbit,rtt=10ms", "--direction", "to", "--factor", "window=8KiB", "--blocks", "6", "-t", "400ms", "--omit", "200ms", "--settle", "0s", "-q")
		must.Contain(try, r.out, "6 blocks, decided", "no verdict")
	})
}

// TestWindowsPresetFindsTheWindow: the plateau of windows begins where the window equals rate
// times round trip, within one level.
func TestWindowsPresetFindsTheWindow(t *testing.T) {
	needLab(t)
	const goodput, rtt = 20e6 * 1448 / 1538, 40e-3 // diagnosis.md 2.1, MTU 1500 with timestamps
	levels := []units.Bytes{64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 1536 << 10}
	enough := slices.IndexFunc(levels, func(w units.Bytes) bool { return float64(w) >= goodput*rtt/8 })
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := run(try, command(try, "run", "lab:rate=20mbit,rtt=40ms", "--preset", "windows", "-C", "cubic", "-t", "300ms", "--omit", "300ms",
			"--settle", "0s", "--blocks", "4", "--tolerance", "10%", "--no-twin", "--json", "-q"))
		plateaus := decode[document](try, r.out).Session.Plateaus
		must.Need(try, r.code == 0 && len(plateaus) == 1 && plateaus[0].Decided, "exit code %d, %+v\n%s", r.code, plateaus, r.err)
		found := slices.IndexFunc(levels, func(w units.Bytes) bool { return strings.ReplaceAll(w.String(), " ", "") == plateaus[0].Level })
		try.Claim("smallest level that is enough", float64(found-enough), -1, 1, "levels from the right one")
	})
}

// TestRecheckASession measures again in the lab what a session in the lab proved: it is still
// better, and the JSON form says the same.
func TestRecheckASession(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		db := filepath.Join(try.TempDir(), "r.db")
		succeed(try, "run", "lab:rate=50mbit,rtt=10ms", "--factor", "far.tcp.recv_buffer_max=32KiB,1MiB", "--baseline", "32KiB", "--direction", "to",
			"-t", "300ms", "--omit", "300ms", "--settle", "0s", "--blocks", "10", "-q", "--db", db)
		look := succeed(try, "recheck", "last", "--look", "--db", db)
		has(try, "the look", unwrapped(look.out), "tcp.recv_buffer_max=1 MiB on far: proven on ", ", against 32 KiB; nothing that is known has changed since")
		r := succeed(try, "recheck", "last", "--json", "-q", "--db", db)
		must.OK(try, validate("linerate/recheck/v1", r.out))
		d := decode[recheckDoc](try, r.out)
		must.True(try, len(d.Settings) == 1 && d.Settings[0].State == "still better" && d.Settings[0].Measured != "", "%+v", d)
		run(try, command(try, "recheck", "last~1", "last", "--db", db)).ends(try, 2, "one HOST or SESSION")
	})
}

// TestTruthOfEngines: TCP at 18 Mbit/s is better than datagrams at 5.
func TestTruthOfEngines(t *testing.T) {
	needLab(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		all := enginesTakeTurns(try, "8")
		i := slices.IndexFunc(all, func(v model.Verdict) bool { return v.Setting == "tcpbulk" && v.Metric == model.Goodput })
		must.True(try, i >= 0 && all[i].Outcome == model.Better, "%+v", all)
	})
}

// TestTruthOfFarEnds: blocks alternate over three far ends of known rates, with a setting of
// each; every run carries what its own path does.
func TestTruthOfFarEnds(t *testing.T) {
	needLab(t)
	rates := map[string]float64{"lab:rate=50mbit,rtt=1ms": 50e6, "lab:rate=20mbit,rtt=1ms": 20e6, "lab:rate=35mbit,rtt=1ms": 35e6}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		args := []string{"run", "--factor", "far=lab:rate=50mbit,rtt=1ms,lab:rate=20mbit,rtt=1ms,lab:rate=35mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=1MiB,2MiB",
			"--settle", "0s", "--no-twin", "-t", "200ms", "--omit", "100ms", "--max-blocks", "8", "--budget", "4s", "--db", filepath.Join(try.TempDir(), "results.db"), "--json", "-q"}
		dry := decode[report.DryRun](try, succeed(try, append(args, "--dry-run")...).out)
		// 300 ms at the ceilings of three links, each with two settings in eight blocks.
		try.Claim("bytes foreseen", float64(dry.Bytes.Or(0))/(16*0.3/8*0.9415*105e6), 0.99, 1.01, "times what the links carry")
		must.True(try, dry.Runs == 48 && len(dry.Settings) == 6 && dry.Baseline == "lab:rate=50mbit,rtt=1ms recv_buffer_max=1MiB", "%+v", dry)
		d := decode[document](try, succeed(try, args...).out)
		must.True(try, len(d.Report.FarEnds) == 3 && !(d.Report.FarEnds[1].Ceiling.Or(0) > 19e6) &&
			d.Session.Far == "lab:rate=50mbit,rtt=1ms", "far %s, %+v", d.Session.Far, d.Report.FarEnds)
		shares := map[string][]float64{}
		for _, r := range d.Session.Runs {
			setting, _ := d.Session.Plan.Setting(r.Setting)
			if got, ok := r.Value(model.To, model.Goodput); ok && r.State == model.RunValid {
				shares[setting.FarEnd()] = append(shares[setting.FarEnd()], got/rates[setting.FarEnd()])
			}
		}
		for end := range rates {
			slices.Sort(shares[end])
			must.Need(try, len(shares[end]) >= 2, "%s: %d runs", end, len(shares[end]))
			try.Claim(end, median(shares[end]), 0.7, 1.05, "of its wire, median")
		}
		more := decode[document](try, succeed(try, "run", "--resume", "last", "--max-blocks", "8", "--db", args[slices.Index(args, "--db")+1], "--json", "-q").out).Session
		// Eight blocks, the last of which may omit what seven decided.
		must.True(try, len(d.Session.Runs) < 42 && len(more.Runs) > 42 && more.Runs[len(more.Runs)-1].Block == 8 && more.Reason != d.Session.Reason, "%d runs (%s), then %d (%s)", len(d.Session.Runs), d.Session.Reason, len(more.Runs), more.Reason)
	})
}

// recheckDoc is the document of linerate recheck.
type recheckDoc struct {
	Settings []struct {
		Knob     string `json:"knob"`
		State    string `json:"state"`
		Text     string `json:"text"`
		Measured string `json:"measured"`
	} `json:"settings"`
}
