package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/control/runner"
	"linerate/internal/core/candidate"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// glances diagnoses the incumbent, and, if that would end the search with a possible gain
// left, also its earlier runs: a short run may miss what another one shows. If none of them
// shows anything, again is the direction in which one more run may.
func (s *steer) glances(ctx context.Context, incumbent model.Setting, runs []model.Run) (look tune.Look, again model.Direction, err error) {
	for back := range mostLooks {
		l, err := s.look(ctx, incumbent, runs, back)
		if err != nil {
			return l, "", err
		}
		if back == 0 {
			look = l
		}
		if !s.over(l, runs) {
			return l, "", nil
		}
		if _, few := blind(l, incumbent.Name, runs, back+2); few {
			break
		}
	}
	again, _ = blind(look, incumbent.Name, runs, mostLooks)
	return look, again, nil
}

// over reports whether the machine would end after a look because no other setting is known to help.
func (s *steer) over(l tune.Look, runs []model.Run) bool {
	rec := s.record()
	rec.Inputs = append(slices.Clone(rec.Inputs), tune.Input{Look: &l})
	next := tune.Replay(rec, runs).Next()
	return next.Kind != tune.KindRace && next.Kind != tune.KindAsk && next.Kind != tune.KindScreen && next.Reason == tune.NothingLeft
}

// look diagnoses the incumbent from its last run in each direction, or from the run that is
// back runs earlier.
func (s *steer) look(ctx context.Context, incumbent model.Setting, runs []model.Run, back int) (tune.Look, error) {
	seen := s.trial.Session
	seen.Hosts, seen.Runs, seen.Findings = under(seen.Hosts, incumbent), nil, nil
	objective := s.trial.Session.Plan.Decides()
	out := tune.Look{Reached: map[model.Direction]fact.Of[float64]{}, Values: map[model.Direction]float64{}}
	samples := map[int][]model.Sample{}
	for _, d := range s.request.Directions {
		if valid := validRuns(incumbent.Name, d, runs); len(valid) > 0 {
			r := valid[max(0, len(valid)-1-back)]
			kept, err := s.store.Samples(ctx, seen.ID, r.Number)
			if err != nil {
				return out, err
			}
			r.Setting, samples[r.Number] = seen.Plan.Baseline, kept
			seen.Runs = append(seen.Runs, r)
			if v, ok := r.Value(d, objective); ok {
				out.Values[d] = v
			}
		}
	}
	for _, r := range seen.Runs {
		got, _ := r.Value(r.Flow.Direction, model.Goodput)
		share := reached(limits.OfPath(&seen, r.Flow.Direction).Rate, got)
		out.Reached[r.Flow.Direction] = share
		if of, ok := share.Get(); ok && of > 0 {
			s.full = max(s.full, units.Bytes(float64(plan.Payload([]model.Run{r}))/of))
		}
	}
	var ideas []candidate.Candidate
	if objective == model.Goodput {
		seen.Findings = diagnose.Session(&seen, samples)
		out.Limits = limitsOf(&seen)
		ideas = slices.DeleteFunc(candidate.Session(&seen), func(c candidate.Candidate) bool { return c.Rule == candidate.QueueRule }) // a shorter queue brings no rate
	} else {
		ideas = goal(&seen, objective, &out)
	}
	if s.request.Thorough {
		for _, d := range s.request.Directions {
			for _, c := range candidate.Rest(&seen, d) {
				out.Rest = append(out.Rest, s.idea(c))
			}
		}
	}
	for _, c := range ideas {
		if slices.Contains(s.request.Directions, c.Direction) {
			out.Ideas = append(out.Ideas, s.idea(c))
		}
	}
	return out, s.tryAlgorithms(ctx, out.Ideas, out.Rest)
}

// tryAlgorithms refuses the congestion controls among ideas that a host does not take: which it
// has, and which a network namespace may set, only trying shows.
func (s *steer) tryAlgorithms(ctx context.Context, ideas ...[]tune.Idea) error {
	for _, idea := range slices.Concat(ideas...) {
		name := idea.Setting.Name
		if _, known := s.refused[name]; known || s.request.DryRun || idea.Refused != "" || idea.Setting.Assignments[0].Knob != "tcp.congestion_control" {
			continue
		}
		no, err := s.trial.Try(ctx, idea.Setting)
		if err != nil {
			return err
		}
		s.refused[name] = ""
		if no != nil && !errors.Is(no, runner.ErrContact) {
			s.refused[name] = no.Error()
		}
	}
	for _, all := range ideas {
		for i := range all {
			all[i].Refused = cmp.Or(all[i].Refused, s.refused[all[i].Setting.Name])
		}
	}
	return nil
}

// goal diagnoses an objective other than the rate: latency under load, or the CPU time of a
// host. It fills in its components and how near it is to the least possible, if known, and
// returns what could lower it.
func goal(seen *model.Session, objective model.Metric, out *tune.Look) []candidate.Candidate {
	var ideas []candidate.Candidate
	out.Limits = map[model.Direction]string{}
	for _, d := range []model.Direction{model.To, model.From} {
		if _, tuned := out.Reached[d]; !tuned {
			continue
		}
		out.Reached[d] = fact.Unknown[float64]("the least possible of what decides is not known")
		if objective == model.LatencyP50 || objective == model.LatencyP99 {
			out.Reached[d], out.Limits[d] = diagnose.Waiting(seen, d)
			ideas = append(ideas, candidate.Latency(seen, d)...)
		}
		for h, cost := range map[model.Host]model.Metric{model.Near: model.CPUPerGbitNear, model.Far: model.CPUPerGbitFar} {
			if objective == cost {
				out.Limits[d] = diagnose.Work(seen, d, h)
				ideas = append(ideas, candidate.CPU(seen, d, h)...)
			}
		}
	}
	return ideas
}

// validRuns returns the valid runs of a setting in a direction, in order of time.
func validRuns(setting string, d model.Direction, runs []model.Run) []model.Run {
	return slices.DeleteFunc(slices.Clone(runs), func(r model.Run) bool {
		return r.Setting != setting || r.Flow.Direction != d || r.State != model.RunValid
	})
}

// mostLooks is how many runs of a setting to diagnose before concluding that they show
// nothing (p): a run of a second names a small send buffer before a deep queue in 6 of 14
// cases, so that three of them miss it in one of five, and six in one of thirty.
const mostLooks = 6

// blind returns a direction in which the path carries less than it can, while the incumbent
// has fewer valid runs than enough.
func blind(l tune.Look, incumbent string, runs []model.Run, enough int) (model.Direction, bool) {
	for _, d := range []model.Direction{model.To, model.From} {
		share, known := l.Reached[d].Get()
		if known && share < tune.Enough && len(validRuns(incumbent, d, runs)) < enough {
			return d, true
		}
	}
	return "", false
}

// hopeless returns why a direction has no valid run: that nothing arrives, if the last run
// shows that, or else said.
func (s *steer) hopeless(d model.Direction, runs []model.Run, said string) error {
	seen := s.trial.Session
	seen.Findings = nil
	for _, r := range slices.Backward(runs) {
		if r.Flow.Direction == d && diagnose.Dead(r, d) {
			r.Setting, seen.Runs = seen.Plan.Baseline, []model.Run{r}
			seen.Findings = diagnose.Session(&seen, nil)
			break
		}
	}
	why := limitsOf(&seen)[d]
	if why == "" {
		return errors.New(said)
	}
	return fault.WithHint(fmt.Errorf("nothing can be tuned %s: %s", s.trial.Session.Names().Way(d), why), "linerate check %s says which packets pass", s.ends.FarText)
}

// limitsOf returns what limits each direction of a session: its first finding.
func limitsOf(s *model.Session) map[model.Direction]string {
	out := map[model.Direction]string{}
	for _, f := range s.Findings {
		if _, has := out[f.Direction]; !has && f.Kind != model.FindingBeside {
			out[f.Direction] = diagnose.Sentence(f, s.Names().Of)
		}
	}
	return out
}

// under returns the facts of hosts with a setting applied.
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

// idea says whether a candidate may be tried, and what to ask the user about it.
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
		case a.Host != "" && client.NoSettings() != "":
			idea.Refused = client.Name() + ": " + client.NoSettings()
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

// named reports whether names, given by the user, include an assignment.
func named(names []string, a model.Assignment) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		host, id, of := strings.Cut(n, ".")
		if end, named := model.ParseHost(host); of && named {
			return end == a.Host && id == string(a.Knob)
		}
		return n == string(a.Knob)
	})
}
