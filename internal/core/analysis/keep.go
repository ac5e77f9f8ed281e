package analysis

import (
	"slices"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
)

// Keep says whether a setting may be kept, and if not, why. Reports, searches, profiles and the
// keep command all use it.
type Keep struct {
	Better, Worse bool            // on the objective, in any direction
	Harms         []model.Verdict // guards that are violated
	Open          []model.Verdict // undecided guards that leave intolerable harm possible, or have no value
}

// May reports whether the setting may be kept.
func (k Keep) May() bool { return k.Ask() && len(k.Open) == 0 }

// Ask reports whether the user may decide to keep it: it is better, no harm is shown, and no
// open guard has an estimate of harm beyond its margin.
func (k Keep) Ask() bool {
	return k.Better && !k.Worse && len(k.Harms) == 0 && !slices.ContainsFunc(k.Open, func(v model.Verdict) bool {
		return v.Guard.Margin > 0 && -v.Estimate >= metric.Harm(v.Guard.Guard, 1)
	})
}

// InTheWay returns the guards that speak against the setting, violated ones first.
func (k Keep) InTheWay() []model.Verdict {
	return slices.Concat(k.Harms, k.Open)
}

// MayKeep decides about the named setting by its verdicts. It ignores a default guard that has
// no value in any run, and an undecided one that leaves at most metric.Tolerable margins of
// harm possible (statistics.md section 6.5).
func MayKeep(objective model.Metric, verdicts []model.Verdict, setting string) Keep {
	var k Keep
	for _, v := range verdicts {
		if v.Setting != setting || v.IsTwin {
			continue
		}
		if v.Metric == objective {
			k.Better = k.Better || v.Outcome == model.Better && v.Guard == nil
			k.Worse = k.Worse || v.Outcome == model.Worse
		}
		switch g := v.Guard; {
		case g == nil, g.State == model.GuardHolds, g.State == model.GuardUnmeasured && g.Default, g.State == model.GuardOpen && g.Tolerable:
		case g.State == model.GuardViolated:
			k.Harms = append(k.Harms, v)
		default:
			k.Open = append(k.Open, v)
		}
	}
	return k
}
