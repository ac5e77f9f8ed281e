package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/report"
)

// judged is what these tests read of a session's document.
type judged struct {
	Session struct {
		ID       string          `json:"id"`
		Plan     model.Plan      `json:"plan"`
		Verdicts []model.Verdict `json:"verdicts"`
	} `json:"session"`
	Report struct {
		Tables []report.Table `json:"tables"`
		Noise  []report.Noise `json:"noise"`
	} `json:"report"`
}

// verdict returns what the session says of a setting in one metric.
func (j judged) verdict(t testing.TB, setting string, m model.Metric) model.Verdict {
	t.Helper()
	for _, v := range j.Session.Verdicts {
		if v.Setting == setting && v.Metric == m {
			return v
		}
	}
	t.Fatalf("no verdict on %s of %s in %+v", m, setting, j.Session.Verdicts)
	return model.Verdict{}
}

// row returns how the report shows it.
func (j judged) row(t testing.TB, setting string, m model.Metric) report.Row {
	t.Helper()
	for _, table := range j.Report.Tables {
		for _, r := range table.Rows {
			if table.Metric == m && r.Setting == setting {
				return r
			}
		}
	}
	t.Fatalf("no row on %s of %s", m, setting)
	return report.Row{}
}

// deepPlan compares two receive buffers over a queue that has room for both: the
// smaller one leaves a tenth of the wire unused, the larger one fills the wire and
// the queue.
const deepPlan = `title: a deep queue
far: lab:rate=50mbit,rtt=20ms,queue=2MiB
flow: {engine: loaded, duration: 600ms, omit: 900ms, interval: 200ms, congestion: reno}
objective: goodput
settings:
  - {name: flat, set: {far.tcp.recv_buffer_max: 180KiB}}
  - {name: deep, set: {far.tcp.recv_buffer_max: 800KiB}}
baseline: flat
settle: 50ms
`

// TestGuardRefusesABloatedQueue: a setting that gains goodput and more than doubles
// the 99th percentile of the latency under load is better, but: its guard refuses
// it, in words, in JSON, and when it is to be kept.
func TestGuardRefusesABloatedQueue(t *testing.T) {
	t.Parallel()
	needLab(t)
	attempt(t, func() string {
		dir := t.TempDir()
		plan, db := filepath.Join(dir, "deep.yaml"), filepath.Join(dir, "results.db")
		if err := os.WriteFile(plan, []byte(deepPlan), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, command(t, "run", plan, "--json", "--db", db))
		if r.code != 0 {
			return fmt.Sprintf("exit code %d: %s", r.code, r.err)
		}
		for _, want := range []string{"goodput decides", "99th percentile of latency less than 50 % higher"} {
			if !strings.Contains(r.err, want) {
				t.Errorf("before the first run nobody said %q:\n%s", want, r.err)
			}
		}
		d := decode[judged](t, r.out)
		goodput, p99 := d.verdict(t, "deep", model.Goodput), d.verdict(t, "deep", model.LatencyP99)
		t.Logf("goodput %s by %.3f, p99 %.3f, guard %s, %d blocks", goodput.Outcome, goodput.Estimate, p99.Estimate, p99.Guard.State, goodput.Blocks)
		if gain := math.Exp(goodput.Estimate); gain < 1.03 || gain > 1.35 {
			return fmt.Sprintf("the deep buffer gains %.3f, meant is about a tenth", gain)
		}
		if p99.Estimate > -math.Ln2 {
			return fmt.Sprintf("the 99th percentile is %.2f times, want at least twice", math.Exp(-p99.Estimate))
		}
		if goodput.Outcome != model.Better || p99.Guard.State != model.GuardViolated || !p99.Guard.Default {
			return fmt.Sprintf("goodput is %s, the guard on the latency %s", goodput.Outcome, p99.Guard.State)
		}
		row := d.row(t, "deep", model.Goodput)
		if !strings.HasPrefix(row.Words, "better") || !strings.Contains(row.Words, ", but 99th percentile of latency to ") || len(row.Refused) == 0 {
			t.Errorf("the report says %q, refused by %q", row.Words, row.Refused)
		}
		if len(d.Report.Noise) != 1 || d.Report.Noise[0].Checked || d.Report.Noise[0].Pairs != 4 {
			t.Errorf("noise %+v, want four pairs that check nothing", d.Report.Noise)
		}
		keep := []string{"keep", d.Session.ID, "--db", db, "--role", "receiver", "--dry-run"}
		refused := run(t, command(t, keep...))
		if refused.code != 2 || !strings.Contains(refused.err, "refused by its guards") ||
			!strings.Contains(refused.err, "99th percentile of latency") || !strings.Contains(refused.err, "--despite-guards") {
			t.Errorf("keep: exit code %d\n%s", refused.code, refused.err)
		}
		wished := run(t, command(t, append(keep, "--despite-guards")...))
		if wished.code == 2 || strings.Contains(wished.err, "refused by its guards") || !strings.Contains(wished.err, "kept despite its guards") {
			t.Errorf("keep --despite-guards: exit code %d\n%s", wished.code, wished.err)
		}
		return ""
	})
}

// requestPlan compares two windows: one needs more round trips for a request than
// the other.
const requestPlan = `title: requests of 64 KiB
far: lab:rate=100mbit,rtt=20ms
flow: {engine: reqresp, duration: 600ms, omit: 300ms, block: 64KiB, reply: 100B}
settings:
  - {name: small, set: {window: 24KiB}}
  - {name: large, set: {window: 256KiB}}
baseline: small
settle: 0s
`

// TestRequestsDecideOnLatency: a plan of requests has no goodput; a window that
// halves the time that a request takes is better, and is shown as lower.
func TestRequestsDecideOnLatency(t *testing.T) {
	t.Parallel()
	needLab(t)
	attempt(t, func() string {
		plan := filepath.Join(t.TempDir(), "requests.yaml")
		if err := os.WriteFile(plan, []byte(requestPlan), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(t, command(t, "run", plan, "--json"))
		if r.code != 0 {
			return fmt.Sprintf("exit code %d: %s", r.code, r.err)
		}
		d := decode[judged](t, r.out)
		v, row := d.verdict(t, "large", model.LatencyP50), d.row(t, "large", model.LatencyP50)
		t.Logf("median latency %s by %.3f after %d blocks: %s; %s", v.Outcome, v.Estimate, v.Blocks, row.ChangeText, row.Words)
		if d.Session.Plan.Objective != model.LatencyP50 {
			t.Errorf("%s decides", d.Session.Plan.Objective)
		}
		if ratio := math.Exp(-v.Estimate); ratio < 0.35 || ratio > 0.65 {
			return fmt.Sprintf("the large window takes %.2f of the time, meant is half", ratio)
		}
		if v.Outcome != model.Better || !strings.HasPrefix(row.Words, "better") {
			return fmt.Sprintf("the latency is %s (%s)", v.Outcome, row.Words)
		}
		if row.Change >= 0 || !strings.HasSuffix(row.ChangeText, " lower") && !strings.HasPrefix(row.ChangeText, "0.") {
			t.Errorf("half the latency is shown as %q, %v", row.ChangeText, row.Change)
		}
		return ""
	})
}
