package main

import (
	"fmt"
	"slices"
	"testing"

	"linerate/internal/core/model"
	planted "linerate/internal/lab/faults"
)

// TestTruthOfFaults: of some kinds of planted limits, drawn from seeds, the first
// finding of each direction is right. make judge looks at all of them.
func TestTruthOfFaults(t *testing.T) {
	needLab(t)
	for _, name := range []string{"clean", "receive-window", "send-buffer", "scaling-off-receiver", "black-hole", "own-shaper"} {
		t.Run(name, func(t *testing.T) {
			c, ok := small(name)
			if !ok {
				t.Fatal("no seed stands for a small lab of this kind")
			}
			attempt(t, func() string { return misjudged(t, c) })
		})
	}
}

// small is the first case of a kind that a busy machine carries, and that the quick
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

// carries is what a direction carries with its plant, as far as there is a formula.
func carries(l planted.Label) float64 {
	if l.Bound > 0 {
		return float64(l.Bound)
	}
	return float64(l.Ceiling)
}

// misjudged says which first findings of a case are not right, "" for none.
func misjudged(t testing.TB, c planted.Case) string {
	t.Helper()
	r := run(t, command(t, "check", "--quick", "lab:"+c.Spec, "--json=full", "-q"))
	d := decode[struct {
		Session struct {
			Findings []model.Finding `json:"findings"`
		} `json:"session"`
	}](t, r.out)
	for _, l := range c.Labels {
		i := slices.IndexFunc(d.Session.Findings, func(f model.Finding) bool { return f.Direction == l.Direction })
		if i < 0 {
			return fmt.Sprintf("%s: nothing is said of %s (exit %d)", c.Spec, l.Direction, r.code)
		}
		f := d.Session.Findings[i]
		if !slices.ContainsFunc(l.First, func(a planted.Answer) bool { return a.Is(f.Rule, f.Host) }) {
			return fmt.Sprintf("%s: %s is said to be %s of %q (%s), want one of %v", c.Spec, l.Direction, f.Rule, f.Host, f.Evidence, l.First)
		}
	}
	return ""
}
