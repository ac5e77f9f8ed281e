package judge

import (
	"fmt"

	"linerate/bench/internal/results"
)

// Verdicts returns the rows of the summary: each bar, and whether it was met. A bar that no
// case of rows can test has no row.
func (o Options) Verdicts(rows []Row) []results.Verdict {
	if o.ofRouters() {
		return scores(rows)
	}
	s := Add(rows)
	claim, _ := o.Claim()
	var out []results.Verdict
	say := func(tried int, what, bar, result string, met bool) {
		word := "missed"
		if met {
			word = "met"
		}
		if tried > 0 {
			out = append(out, results.Verdict{Claim: claim, What: what, Bar: bar, Result: result, Word: word})
		}
	}
	say(s.Planted, "first finding right, of planted limits that bit", fmt.Sprintf("≥ %.0f %%", 100*barFirst), percent(s.First, s.Planted), ratio(s.First, s.Planted) >= barFirst)
	say(s.Clean, "clean paths with a false finding", fmt.Sprintf("≤ %.0f %%", 100*barFalse), percent(s.FalsePaths, s.Clean), ratio(s.FalsePaths, s.Clean) <= barFalse)
	say(s.Beside, "findings beside the first one right", fmt.Sprintf("≥ %.0f %%", 100*barBeside), percent(s.BesideRight, s.Beside), ratio(s.BesideRight, s.Beside) >= barBeside)
	say(s.Claims, "expected calibration error", fmt.Sprintf("≤ %.0f points", 100*barCalibration), fmt.Sprintf("%.1f points, %d claims", 100*s.Error, s.Claims), s.Error <= barCalibration)
	if o.ofMachines() {
		return out // emulation is slow
	}
	say(len(rows), "longest case", fmt.Sprintf("≤ %d s", barSeconds), fmt.Sprintf("%.0f s", s.Longest), s.Longest <= barSeconds)
	return out
}

// Claim returns the name of the section, and its title: cases in machines and with routers have
// their own.
func (o Options) Claim() (name, title string) {
	switch {
	case o.ofMachines():
		return Machines, "What limits, named in machines with real drivers"
	case o.ofRouters():
		return claimLocate, "In front of which link packets wait, named in labs with routers"
	}
	return "judge", "What limits, named in labs of which it is known"
}
