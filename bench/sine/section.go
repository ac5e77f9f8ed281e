package main

import (
	"fmt"
	"math"
	"strings"

	"linerate/bench/internal/results"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// args returns the arguments of session i, which has its own random order.
func (k kind) args(i int) []string {
	out := append([]string{"run", target(i)}, k.flags...)
	out = append(out, strings.Fields(settling)...)
	return append(out, "--seed", fmt.Sprint(i+1), "--json", "--quiet", "--db", ":memory:")
}

// row is the result of the sessions of a kind.
type row struct {
	kind kind

	done, found, wrong, fooled int
	swing                      float64   // mean of the largest run of the baseline over the smallest, logarithms
	blocks                     []float64 // counted blocks
	estimates                  []float64 // logarithms
}

// add counts a session.
func (r *row) add(s model.Session) {
	v := verdict(s)
	r.done++
	r.blocks = append(r.blocks, float64(v.Blocks))
	r.estimates = append(r.estimates, v.Estimate)
	switch v.Outcome {
	case r.kind.right:
		r.found++
	case model.Better, model.Worse:
		r.wrong++
	case model.Undecided, model.Equivalent: // not found, and not false
	}
	var all, base []float64
	for _, run := range s.Runs {
		y, ok := run.Value(run.Flow.Direction, model.Goodput)
		if !ok || run.State != model.RunValid {
			continue
		}
		all = append(all, math.Log(y))
		if run.Setting == s.Plan.Baseline {
			base = append(base, math.Log(y))
		}
	}
	if r.kind.sequence && tellsApart(all) {
		r.fooled++
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, y := range base {
		low, high = min(low, y), max(high, y)
	}
	if len(base) > 0 {
		r.swing += high - low
	}
}

// tellsApart reports whether a t test at 5 % finds the first half of values different from the
// second half, as if each half were all runs of one setting.
func tellsApart(y []float64) bool {
	const quantile = 2.145 // of Student's t with 14 degrees of freedom, for two times 8 runs
	if len(y) != 2*turns {
		return false
	}
	a, b := y[:turns], y[turns:]
	noise := math.Sqrt((square(stats.StdDev(a)) + square(stats.StdDev(b))) / turns)
	return math.Abs(stats.Mean(a)-stats.Mean(b)) > quantile*noise
}

func square(x float64) float64 { return x * x }

// percent formats the logarithm of a ratio as a change.
func percent(log float64) string { return fmt.Sprintf("%+.1f %%", 100*math.Expm1(log)) }

// section returns the table of all rows, and their summary.
func section(rows []row) results.Section {
	var b strings.Builder
	fmt.Fprintf(&b, `Made by `+"`make sine`"+`: sessions of linerate run, each in a lab of its own whose rate is
%d Mbit/s × (1 + %.2f × sin) with periods of 60, 90, 150 and 300 s in turn and phases all
around, `+"`lab:rate=%dmbit,swing=%d%%/60s/PHASE,rtt=2ms,queue=1MiB,near.tcp.congestion_control=reno`"+`. Runs of one
second begin every 1.4 s (`+"`%s`"+`), so that a period is 44 to 220 runs.
Settings that do not differ are windows of 384 and 512 KiB, far above the 5 kB that are needed;
the true difference is the share of headers, computed from the segment's size. Where
there is one, a session begins with four pairs of the baseline, which are of its 20 blocks and
not in the median. Swing is the largest run of the baseline over its smallest one, mean over the sessions.

`, labRate, float64(swingBy)/100, labRate, swingBy, settling)
	b.WriteString("| sessions | truth | done | found | false verdicts | blocks until then, median | estimate, median and range | swing inside a session |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		if r.done == 0 {
			continue
		}
		truth, found := "none", "nothing to find"
		if r.kind.right != "" {
			truth, found = percent(r.kind.truth), fmt.Sprint(r.found)
		}
		e, low, high := r.estimates, math.Inf(1), math.Inf(-1)
		for _, y := range e {
			low, high = min(low, y), max(high, y)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %d | %.0f | %s, %s to %s | %s |\n", r.kind.about, truth, r.done, found, r.wrong,
			stats.Median(r.blocks), percent(stats.Median(e)), percent(low), percent(high), percent(r.swing/float64(r.done)))
	}
	return results.Section{Name: "sine", Title: "verdicts on a path whose rate swings", Body: b.String(), Verdicts: verdicts(rows)}
}

// verdicts returns the bars.
func verdicts(rows []row) []results.Verdict {
	var out []results.Verdict
	judge := results.Bars("sine")
	found, sessions := 0, 0
	for _, r := range rows {
		switch {
		case r.done == 0:
		case r.kind.right == "":
			out = append(out, judge("false verdicts: "+r.kind.about, "at most 5 %", fmt.Sprintf("%d of %d", r.wrong, r.done), 20*r.wrong <= r.done))
		default:
			found, sessions = found+r.found, sessions+r.done
		}
		if r.kind.sequence && r.done > 0 {
			out = append(out, results.Verdict{Claim: "sine", What: "the same runs, first half against second half by a t test", Bar: "none: shows that the swing can fool",
				Result: fmt.Sprintf("%d of %d wrong", r.fooled, r.done), Word: "not judged"})
		}
	}
	if sessions > 0 {
		out = append(out, judge("a true 5 % found within 20 blocks", "in 80 %", fmt.Sprintf("%d of %d", found, sessions), 5*found >= 4*sessions))
	}
	return out
}
