package tune

import (
	"testing"

	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
)

// A run that shows a gap and nothing to try is not the last word, two more are; where
// there is something to try, nothing to gain, or no ceiling, one is enough.
func TestBlind(t *testing.T) {
	t.Parallel()
	valid := func(n int) []model.Run {
		runs := []model.Run{{Setting: "other", Flow: model.Flow{Direction: model.To}, State: model.RunValid}, {Setting: tune.Baseline, Flow: model.Flow{Direction: model.To}, State: model.RunInvalid}}
		for range n {
			runs = append(runs, model.Run{Setting: tune.Baseline, Flow: model.Flow{Direction: model.To}, State: model.RunValid})
		}
		return runs
	}
	idea := tune.Idea{Candidate: candidate.Candidate{Direction: model.To}}
	for name, c := range map[string]struct {
		share fact.Of[float64]
		ideas []tune.Idea
		runs  int
		want  bool
	}{
		"a gap and no idea":    {fact.Known(0.3, ""), nil, 1, true},
		"looked at twice":      {fact.Known(0.3, ""), nil, 2, true},
		"looked at often":      {fact.Known(0.3, ""), nil, 3, false},
		"something to try":     {fact.Known(0.3, ""), []tune.Idea{idea}, 1, false},
		"nothing to gain":      {fact.Known(0.98, ""), nil, 1, false},
		"nobody knows how far": {fact.Unknown[float64]("no ceiling"), nil, 1, false},
	} {
		l := tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: c.share}, Ideas: c.ideas}
		if d, again := blind(l, tune.Baseline, valid(c.runs)); again != c.want || again && d != model.To {
			t.Errorf("%s: %v %q", name, again, d)
		}
	}
}
