package analysis

import (
	"slices"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
)

// Keep is the answer to whether a setting may be kept, and if not, why. It is the only one:
// reports, searches, profiles and keep itself ask here.
type Keep struct {
	Better, Worse bool            // in what decides, in any direction
	Harms         []model.Verdict // guards that are violated
	Open          []model.Verdict // guards that leave more harm possible than may pass, or have no value
}

// May reports whether the setting may be kept.
func (k Keep) May() bool { return k.Ask() && len(k.Open) == 0 }

// Ask reports whether the person may decide to keep it: it is better, no harm is shown, and
// no guard that is open has an estimate of harm beyond its margin.
func (k Keep) Ask() bool {
	return k.Better && !k.Worse && len(k.Harms) == 0 && !slices.ContainsFunc(k.Open, func(v model.Verdict) bool {
		return v.Guard.Margin > 0 && -v.Estimate >= metric.Harm(v.Guard.Guard, 1)
	})
}

// InTheWay are the guards that speak against the setting, those that are violated first.
func (k Keep) InTheWay() []model.Verdict {
	return slices.Concat(k.Harms, k.Open)
}

// MayKeep answers for the setting of that name by its verdicts. A default guard that no run
// has a value of does not count, nor one that is undecided and leaves at most
// metric.Tolerable margins of harm possible (statistics.md section 6.5).
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
