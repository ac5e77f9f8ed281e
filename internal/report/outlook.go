package report

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/stats"
	"linerate/internal/core/units"
)

// Outlook says, before the first run of p, what the objective and the guards are, and what the
// plan can detect, one sentence per line (statistics.md section 7.3).
func Outlook(p model.Plan, o analysis.Outlook) []string {
	if o.Candidates == 0 {
		return nil
	}
	decides := metric.Name(p.Decides()) + " decides"
	var guards []string
	for _, g := range p.Guards {
		i := metric.Describe(g.Metric)
		guards = append(guards, fmt.Sprintf("%s less than %s", i.Name, i.HarmText(g.Margin)))
	}
	if len(guards) > 0 {
		decides += "; to be kept, a setting needs " + strings.Join(guards, ", ")
	}
	out := []string{decides, sees(p, o)}
	if h := heldOver(p); h != nil {
		out = append(out, h.Why)
	}
	if p.Incomplete {
		out = append(out, incomplete(p))
	}
	return append(out, o.Warnings...)
}

// incomplete describes blocks that do not hold all settings, and what they cannot show
// (balanced incomplete blocks: Yates, Annals of Eugenics 7, 1936).
func incomplete(p model.Plan) string {
	text := fmt.Sprintf("incomplete blocks: each of the %d blocks holds %s and %d of the other %d settings, and each of these is in %d blocks; they are compared with %s of the same block only",
		p.MaxBlocks, p.Baseline, stats.SubsetSize, len(plan.Candidates(p)), plan.Comparisons(p), p.Baseline)
	if len(p.Factors) > 0 {
		text += ", and what a factor does in the mean over the others is not computed"
	}
	return text
}

// DryHeld is the knob that a plan holds over groups of runs.
type DryHeld struct {
	Knob    model.KnobID `json:"knob"`
	Runs    int          `json:"runs_per_group"`
	Changes int          `json:"changes_per_block"` // of the knob on each host
	Why     string       `json:"why"`
}

// heldOver describes the knob that p holds over groups of runs and why; nil for none.
func heldOver(p model.Plan) *DryHeld {
	if p.Held == "" || len(p.Order) <= p.NullBlocks {
		return nil
	}
	block := p.NullBlocks + 1
	ways := max(1, len(p.Directions))
	h := DryHeld{Knob: p.Held, Changes: len(plan.Groups(p, block))}
	all := len(p.Order[block-1]) * ways
	h.Runs = all / h.Changes
	h.Why = fmt.Sprintf("%s is held over groups of %s: it is hard to change, so that a block changes it %s and not %d, and it is judged by the means of its groups",
		p.Held, plain.Count(h.Runs, "run"), plain.Count(h.Changes, "time"), all)
	return &h
}

// sees describes what a plan can detect at the known noise.
func sees(p model.Plan, o analysis.Outlook) string {
	noise, known := o.Noise.Get()
	if !known {
		text := "what it can see is not known: " + o.Noise.Reason()
		if p.Mode == model.Sequential {
			text += fmt.Sprintf("; no verdict before block %d", o.LeastBlocks)
		}
		return text
	}
	spread := units.FormatChange(noise)
	text := fmt.Sprintf("noise: two runs of the baseline differ by at most %s (%s)", strings.TrimPrefix(spread, "+"), o.Noise.Source())
	if least, ok := o.LeastChange.Get(); ok {
		text += fmt.Sprintf("; a change smaller than %s will not be seen", units.Round(float64(least), float64(least))+" %")
	}
	if n, ok := o.Expected.Get(); ok && p.Mode == model.Sequential {
		text += fmt.Sprintf("; one of %s takes about %s", p.Margin, plain.Count(n, "block"))
		if t, ok := o.Time.Get(); ok {
			text += " (" + units.FormatDuration(t.Round(time.Second)) + ")"
		}
	}
	return text
}
