package tune

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/core/candidate"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
)

// look diagnoses the incumbent from its last run in each direction.
func (s *steer) look(ctx context.Context, incumbent model.Setting, runs []model.Run) (tune.Look, error) {
	seen := s.trial.Session
	seen.Hosts, seen.Runs, seen.Findings = under(seen.Hosts, incumbent), nil, nil
	out := tune.Look{Reached: map[model.Direction]fact.Of[float64]{}}
	samples := map[int][]model.Sample{}
	for _, d := range s.request.Directions {
		for _, r := range slices.Backward(runs) {

			if r.Setting != incumbent.Name || r.Flow.Direction != d || r.State != model.RunValid {
				continue
			}
			kept, err := s.store.Samples(ctx, seen.ID, r.Number)
			if err != nil {
				return out, err
			}
			r.Setting, samples[r.Number] = seen.Plan.Baseline, kept
			seen.Runs = append(seen.Runs, r)
			break
		}
	}
	for _, r := range seen.Runs {
		got, _ := r.Value(r.Flow.Direction, model.Goodput)
		out.Reached[r.Flow.Direction] = reached(limits.OfPath(&seen, r.Flow.Direction).Rate, got)
	}
	if s.trial.Session.Plan.Decides() != model.Goodput {
		for d := range out.Reached {
			out.Reached[d] = fact.Unknown[float64]("the least possible of what decides is not known")
		}
	}
	seen.Findings = diagnose.Session(&seen, samples)
	out.Limits = limitsOf(&seen)
	for _, c := range candidate.Session(&seen) {
		if slices.Contains(s.request.Directions, c.Direction) {
			out.Ideas = append(out.Ideas, s.idea(c))
		}
	}
	return out, nil
}

// mostLooks is how many runs of a setting are looked at before it counts that they say
// nothing (p): a short run may miss what the next one shows.
const mostLooks = 3

// blind reports a direction in which the path carries less than it can, and nothing
// was found to try, though fewer runs than mostLooks were looked at.
func blind(l tune.Look, incumbent string, runs []model.Run) (model.Direction, bool) {
	for _, d := range []model.Direction{model.To, model.From} {
		share, known := l.Reached[d].Get()
		if !known || share >= tune.Enough || slices.ContainsFunc(l.Ideas, func(i tune.Idea) bool { return i.Direction == d }) {
			continue
		}
		seen := 0
		for _, r := range runs {
			if r.Setting == incumbent && r.Flow.Direction == d && r.State == model.RunValid {
				seen++
			}
		}
		if seen < mostLooks {
			return d, true
		}
	}
	return "", false
}

// limitsOf says what holds each direction of a session back: its first finding.
func limitsOf(s *model.Session) map[model.Direction]string {
	out := map[model.Direction]string{}
	for _, f := range s.Findings {
		if _, has := out[f.Direction]; !has && f.Kind != model.FindingBeside {
			out[f.Direction] = diagnose.Sentence(f, func(h model.Host) string {
				return map[model.Host]string{model.Near: "the near host", model.Far: "the far host"}[h]
			})
		}
	}
	return out
}

// under returns the facts of hosts as they are while a setting holds.
func under(hosts []model.HostFacts, set model.Setting) []model.HostFacts {
	out := slices.Clone(hosts)
	for i := range out {
		out[i].Knobs = maps.Clone(out[i].Knobs)
		for _, a := range set.Assignments {
			if a.Host == out[i].Host && out[i].Knobs != nil {
				out[i].Knobs[a.Knob] = fact.Known(a.Value, "set for this run")
			}
		}
	}
	return out
}

// idea says of a candidate whether it may be tried, and what a person has to be asked.
func (s *steer) idea(c candidate.Candidate) tune.Idea {
	idea := tune.Idea{Candidate: c}
	for _, a := range c.Setting.Assignments {
		k, known := s.env.Catalogue.ByID(a.Knob)
		client := s.ends.Client(a.Host)
		if known {
			idea.Risk = k.Risk.Words()
		}
		switch {
		case a.Host != "" && client == nil:
			idea.Refused = fmt.Sprintf("with %s only settings of the test can be tried", s.ends.Foreign())
		case a.Host != "" && !client.CanTune():
			idea.Refused = client.Name() + " measures only"
		case named(s.request.Never, a):
			idea.Refused = "it may not be tried: --never"
		case len(s.request.Only) > 0 && !named(s.request.Only, a):
			idea.Refused = "other settings were asked for: --only"
		case known && (k.Risk >= knob.RiskConnection || k.Risky()):
			idea.Ask = k.Risk.Words()
			if k.Risk < knob.RiskConnection {
				idea.Ask = "the link may be down for seconds"
			}
		}
	}
	return idea
}

// named reports whether an assignment is one of those that a person named.
func named(names []string, a model.Assignment) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		host, id, of := strings.Cut(n, ".")
		if end, named := model.ParseHost(host); of && named {
			return end == a.Host && id == string(a.Knob)
		}
		return n == string(a.Knob)
	})
}
