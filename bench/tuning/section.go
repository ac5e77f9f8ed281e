package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/bench/internal/results"
	"linerate/internal/lab/mistuned"
)

// section returns the table of all rows, and their summary.
func section(rows []mistuned.Row) results.Section {
	var b strings.Builder
	b.WriteString(`Made by ` + "`make tuning`" + `: in each lab the two hosts are tuned as hosts of their own
(` + "`linerate tune`" + `), and everything in the table but the
claimed gain is measured apart from the tuner. "Exhaustive" is the best of every
combination of the settings that bite in that direction, each measured once and the
best of them afresh, as the best of many is so by luck too; it was left out where the
wire was full after tuning (95 % of the ceiling), since no search can be better. It would
take three runs of each to tell it from noise, and that is what the runs of the search
are compared with: either would have to be proven then, which takes the rest. Rates before
and after are medians of nine runs, three in each of three labs that took turns with each
other; a claimed interval misses where the true gain lies outside of it by more than
2 % and two standard errors of that. The ceiling is that of the wire, or of the bus, less framing.

| case | what is wrong | Mbit/s before | after | ceiling | exhaustive | settings changed | claimed gain (95 %) | true gain, with its standard error | runs: search, with proof | exhaustive's runs | minutes | undone |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
`)
	for _, r := range rows {
		claim, undone, after := "none", "yes", fmt.Sprintf("%.1f", r.After/1e6)
		if r.Proven {
			claim = fmt.Sprintf("%.2f to %.2f times", math.Exp(r.Low), math.Exp(r.High))
		}
		if r.Missed() {
			claim += " **missed**"
		}
		if r.NotUndone != "" {
			undone = "**no**: " + r.NotUndone
		}
		if !r.Reached() {
			after = "**" + after + "**"
		}
		if r.Case.Guard != "" {
			after += fmt.Sprintf(" (round trip %.0f -> %.0f ms)", 1e3*r.RTTBefore, 1e3*r.RTTAfter)
		}
		changes := mistuned.Changes(r.Winner)
		if n := r.Needless(); len(n) > 0 {
			changes += " (**needless**: " + mistuned.Changes(n) + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %.1f | %s | %.1f | %s | %s | %s | %.2f times ± %.0f %% | %d, %d | %d | %.1f | %s |\n", r.Case.Name, r.Case.About,
			r.Before/1e6, after, r.Ceiling()/1e6, r.BestText(), changes, claim, r.After/r.Before, 100*r.Noise, r.Search, r.Runs, r.Exhaustive(), r.Seconds/60, undone)
	}
	s := mistuned.Sum(rows)
	right, proven := mistuned.Foretold(rows)
	large, small := mistuned.Minutes(rows, true), mistuned.Minutes(rows, false)
	longest := func(minutes []float64) float64 { return slices.Max(append([]float64{0}, minutes...)) }
	fmt.Fprintf(&b, "\n%d cases, %.0f minutes of tuning.\n", s.Cases, s.Minutes)
	row := results.Bars("tuning")
	return results.Section{Name: "tuning", Title: "linerate tune in labs that are set badly", Body: b.String(), Verdicts: []results.Verdict{
		row("95 % of the ceiling or of the exhaustive best", "in 90 % of the cases", fmt.Sprintf("%d of %d", s.Reached, s.Cases), 10*s.Reached >= 9*s.Cases),
		row("settings that trimming would remove", "none", fmt.Sprint(s.Needless), s.Needless == 0),
		row("claimed intervals that miss the true gain", "at most 5 %", fmt.Sprintf("%d of %d", s.Missed, s.Claimed), 20*s.Missed <= s.Claimed),
		row("runs of the search, of those of an exhaustive one, median", "less than half", fmt.Sprintf("%.2f", s.Share), s.Share < 0.5),
		row("minutes to prove a gain of twice or more", "median at most 2, longest 3", fmt.Sprintf("%.1f, %.1f, of %d", mistuned.Median(large), longest(large), len(large)),
			mistuned.Median(large) <= 2 && longest(large) <= 3),
		row("minutes to prove a smaller gain", "at most 6", fmt.Sprintf("%.1f, of %d", longest(small), len(small)), longest(small) <= 6),
		row("time announced before the first run, within a factor of 1.5", "in 90 % of the proven", fmt.Sprintf("%d of %d", right, proven), 10*right >= 9*proven),
		row("hosts left changed", "none", fmt.Sprint(s.NotUndone), s.NotUndone == 0),
	}}
}
