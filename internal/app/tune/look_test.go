package tune

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// recorded is a real run of a second host of a lab whose send buffer is small.
func recorded(t *testing.T) model.Session {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "core", "diagnose", "testdata", "send-buffer.json")))(t)
	var r struct{ Session model.Session }
	must.Do(t, json.Unmarshal(text, &r))
	return r.Session
}

// blindly is the run as another second of it may look: the kernel did not see that the
// buffer was full.
func blindly(run model.Run) model.Run {
	run.Ends = slices.Clone(run.Ends)
	for i := range run.Ends {
		run.Ends[i].Flows = slices.Clone(run.Ends[i].Flows)
		for k, f := range run.Ends[i].Flows {
			if f.TCP != nil {
				summary := *f.TCP
				summary.SndbufLimited, summary.Cwnd = fact.Known(time.Duration(0), "test"), fact.Unknown[units.Bytes]("test")
				run.Ends[i].Flows[k].TCP = &summary
			}
		}
	}
	return run
}

// noSamples is a store that kept none.
type noSamples struct{ trial.Store }

func (noSamples) Samples(context.Context, string, int) ([]model.Sample, error) { return nil, nil }

// Runs that show a gap and nothing to try are not the last word: earlier ones of the same
// setting are looked at, which cost nothing, and then there are more, up to mostLooks.
// Where there is something to try, or nothing to gain, one look is enough.
func TestGlances(t *testing.T) {
	t.Parallel()
	stand := newStand(t)
	s := recorded(t)
	sees := s.Runs[0]
	misses := blindly(sees)
	full := sees
	full.Values = []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 930e6}}
	for name, c := range map[string]struct {
		runs  []model.Run
		ideas bool
		again model.Direction
	}{
		"the first look shows it":      {[]model.Run{sees}, true, ""},
		"it does not":                  {[]model.Run{misses}, false, model.To},
		"nor do three":                 {[]model.Run{misses, misses, misses}, false, model.To},
		"an earlier one did":           {[]model.Run{misses, sees, misses, misses}, true, ""},
		"none of as many as it takes":  {slices.Repeat([]model.Run{misses}, mostLooks), false, ""},
		"one that is too long ago did": {append([]model.Run{sees}, slices.Repeat([]model.Run{misses}, mostLooks)...), false, ""},
		"nothing to gain":              {[]model.Run{full}, false, ""},
	} {
		runs := slices.Clone(c.runs)
		for i := range runs {
			runs[i].Number, runs[i].Setting = i+1, tune.Baseline
		}
		steer := &steer{
			env: stand.env, ends: stand.ends, store: noSamples{}, request: Request{Request: plan.Request{Plan: model.Plan{Directions: []model.Direction{model.To}}}},
			trial: &trial.Trial{Session: s}, machine: tune.New(tune.Options{}),
		}
		l, again, err := steer.glances(t.Context(), model.Setting{Name: tune.Baseline}, runs)
		must.True(t, err == nil && again == c.again && (len(l.Ideas) > 0) == c.ideas, "%s: again %q, %d ideas, %v", name, again, len(l.Ideas), err)
	}
}

// Without a ceiling nobody knows that there is a gap, and runs of other settings do not
// count.
func TestBlind(t *testing.T) {
	t.Parallel()
	to := func(setting string, state model.RunState) model.Run {
		return model.Run{Setting: setting, Flow: model.Flow{Direction: model.To}, State: state}
	}
	runs := []model.Run{to("other", model.RunValid), to(tune.Baseline, model.RunInvalid), to(tune.Baseline, model.RunValid), to(tune.Baseline, model.RunValid)}
	for name, c := range map[string]struct {
		share  fact.Of[float64]
		enough int
		want   bool
	}{
		"a gap": {fact.Known(0.3, ""), 3, true}, "a gap, and runs enough": {fact.Known(0.3, ""), 2, false},
		"nothing to gain": {fact.Known(0.98, ""), 3, false}, "nobody knows how far": {fact.Unknown[float64]("no ceiling"), 3, false},
	} {
		l := tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: c.share}}
		d, again := blind(l, tune.Baseline, runs, c.enough)
		must.True(t, again == c.want && (!again || d == model.To), "%s: %v %q", name, again, d)
	}
}
