package main

import (
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
)

// TestEnginesTakeTurns compares two kinds of traffic in blocks of one session: datagrams
// with TCP. Each run is what its level says, and only what both measure guards.
// TestTruthOfEngines demands the verdict.
func TestEnginesTakeTurns(t *testing.T) {
	t.Parallel()
	needLab(t)
	enginesTakeTurns(t, "2")
}

// enginesTakeTurns compares datagrams of 5 Mbit/s with TCP, which takes what the 20 Mbit/s
// of the lab carry, and returns the verdicts.
func enginesTakeTurns(t testing.TB, blocks string) []model.Verdict {
	t.Helper()
	args := []string{"run", "lab:rate=20mbit,rtt=1ms", "--udp", "--bitrate", "5M", "--factor", "engine=tcpbulk,udpflow",
		"--blocks", blocks, "-t", "250ms", "--omit", "150ms", "--settle", "0s", "--no-twin", "--db", filepath.Join(t.TempDir(), "results.db"), "--json", "-q"}
	dry := decode[report.DryRun](t, succeed(t, append(args, "--dry-run")...).out)
	// 0.4 s a run: TCP at the ceiling of the path, which is that of datagrams, the others at their rate.
	if got, want := float64(dry.Bytes.Or(0)), float64(dry.Runs)/2*0.4/8*(19.14e6+5e6); got < 0.7*want || got > 1.3*want {
		t.Errorf("%.0f bytes are foreseen, want about %.0f", got, want)
	}
	r := succeed(t, args...)
	must.OK(t, validate("linerate/session/v1", r.out))
	s := decode[document](t, r.out).Session
	for _, one := range s.Runs {
		want := "udpflow"
		if one.Setting == "tcpbulk" {
			want = "tcpbulk"
		}
		must.True(t, one.Flow.Engine == want && (want != "tcpbulk" || one.Flow.Params == ""), "run %d of %s was made with %s (%s)", one.Number, one.Setting, one.Flow.Engine, one.Flow.Params)
	}
	for _, g := range s.Plan.Guards {
		must.True(t, g.Metric != model.LossRatio, "loss is a guard, which TCP does not measure")
	}
	return s.Verdicts
}

// TestEnginesRefused: what a level cannot say, or what one engine does not measure.
func TestEnginesRefused(t *testing.T) {
	t.Parallel()
	const lab = "lab:rate=20mbit"
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"run", lab, "--factor", "engine=tcpbulc"}, `did you mean tcpbulk? "tcpbulc" is not one of tcpbulk, udpflow, reqresp, loaded`},
		{[]string{"run", lab, "--factor", "engine=tcpbulk,udpflow"}, "engine udpflow: it has options of its own, which a level cannot give: begin from it"},
		{[]string{"run", lab, "--factor", "engine=reqresp"}, "engine reqresp, a level, measures no goodput"},
		{[]string{"run", lab, "--udp", "--bitrate", "5M", "--factor", "engine=tcpbulk", "--guard", "loss<1%"}, "engine tcpbulk, a level, measures no loss, which is a guard"},
		{[]string{"run", lab, "--udp", "--bitrate", "5M", "--factor", "engine=tcpbulk", "--factor", "rate=1M,5M"}, "knob rate: belongs to UDP, not to engine tcpbulk"},
		{[]string{"run", lab, "--factor", "near.engine=tcpbulk"}, "engine belongs to the flow, not to the near host"},
		{[]string{"set", "near.engine=tcpbulk"}, "engine"},
	} {
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && strings.Contains(strings.Join(strings.Fields(r.err), " "), c.says) && strings.Count(r.err, "linerate:") == 1, "%q: exit code %d\n%s, want %q", c.args, r.code, r.err, c.says)
	}
}
