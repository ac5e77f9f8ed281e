package tune

import (
	"context"
	"math"
	"slices"
	"time"

	"linerate/internal/core/candidate"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
)

// pilot returns f with the length of the runs that show how long the others must be: long
// enough to see slow start in intervals of at least two round trips, and what limits the path
// after it (statistics.md section 11.7).
func pilot(f model.Flow, rtt time.Duration, quick bool) model.Flow {
	omit, measured := time.Second, 2*time.Second
	if quick {
		omit, measured = omit/2, measured/2
	}
	f.Interval = min(max(100*time.Millisecond, 2*rtt), time.Second)
	f.Omit, f.Duration = max(f.Omit, omit, 20*rtt), max(measured, 20*rtt)
	return f
}

// fit returns the length of the runs of a step: that of pilots for the first block of a race,
// then the length that they show, until the race is decided.
func (s *steer) fit(ctx context.Context, step tune.Step, runs []model.Run) (tune.Length, error) {
	race := step.Kind == tune.KindRace
	if !s.machine.Record(nil).Options.Adapt || race && step.Block == 1 {
		s.length = tune.Length{}
		return s.length, nil
	}
	if s.length.Duration > 0 && step.Block != 1 {
		return s.length, nil
	}
	effect := 0.0
	for _, c := range step.Settings[1:] {
		if race { // leaving a setting out, or using less of it, is expected to make no difference
			effect = max(effect, math.Abs(tune.Effect(runs, s.trial.Session.Plan.Decides(), step.Direction, step.Settings[0].Name, c.Name)))
		}
	}
	var err error
	if s.length, err = s.fitted(ctx, runs, effect); race {
		s.raced = s.length
	} else {
		longest := trimRun
		if step.Kind == tune.KindPlateau {
			longest = plateauRun
		}
		s.length.Duration = min(s.length.Duration, max(longest, 20*s.machine.Record(nil).Options.RTT))
	}
	return s.length, err
}

// What a run takes besides its measured time, about, measured over 5 to 40 ms.
const (
	switching  = 250 * time.Millisecond // the setting, the connection and the result, beside the wait after a setting
	slowStart  = 150 * time.Millisecond // left out, and this many round trips
	slowRounds = 16
	finer      = 400 * time.Millisecond // more for trimming and plateaus, of which some need twice the least
	unsteady   = 2                      // times the measured time where losses may count
)

// left estimates how much longer the search and its proof take if what it tries helps. It
// never rises: the first announcement is a total, which includes what turns up later.
func (s *steer) left() time.Duration {
	suspects := s.suspects()
	left := s.machine.Expect(s.cost(suspects), len(s.request.Directions), suspects)
	if s.announced > 0 {
		left = min(left, s.announced)
	}
	s.announced = left
	return left
}

// cost returns about how long the runs take.
func (s *steer) cost(suspects []candidate.Suspect) tune.Cost {
	p := s.trial.Session.Plan
	each := p.RunLength() + switching
	c := tune.Cost{Pilot: each, Run: each, Fine: each}
	if o := s.machine.Record(nil).Options; o.Adapt {
		p.Flow.Omit, p.Flow.Duration = slowStart+slowRounds*o.RTT, max(500*time.Millisecond, 20*o.RTT)
		if slices.ContainsFunc(suspects, func(c candidate.Suspect) bool { return c.Losses }) {
			p.Flow.Duration *= unsteady
		}
		p.Flow = s.raced.Of(p.Flow)
		c.Run = p.RunLength() + switching
		c.Fine = c.Run + finer
	}
	return c
}

// suspects returns what the facts of the hosts alone show to be narrow, of what may be tried.
func (s *steer) suspects() []candidate.Suspect {
	var out []candidate.Suspect
	if s.trial.Session.Plan.Decides() != model.Goodput {
		return nil
	}
	for _, d := range s.request.Directions {
		for _, c := range candidate.Suspects(&s.trial.Session, d, s.machine.Record(nil).Options.RTT) {
			if s.idea(c.Candidate).Refused == "" {
				out = append(out, c)
			}
		}
	}
	return out
}

// The longest runs of trimming and of a plateau (p): one setting less is worth less time than
// the gain itself, and a smaller size less still.
const (
	trimRun    = 2 * time.Second
	plateauRun = time.Second
)

// fitted returns the length that the pilots among runs show for an effect.
func (s *steer) fitted(ctx context.Context, runs []model.Run, effect float64) (tune.Length, error) {
	plan := s.trial.Session.Plan
	pilots := tune.Pilots{RTT: s.machine.Record(nil).Options.RTT, Samples: map[int][]model.Sample{}}
	for _, r := range runs {
		if r.Flow.Duration != plan.Flow.Duration || r.Flow.Omit != plan.Flow.Omit || r.State != model.RunValid {
			continue
		}
		kept, err := s.store.Samples(ctx, s.trial.Session.ID, r.Number)
		if err != nil {
			return tune.Length{}, err
		}
		pilots.Runs, pilots.Samples[r.Number] = append(pilots.Runs, r), kept
	}
	return pilots.Fit(plan.Decides(), effect), nil
}

// confirmation returns the request for the proof of a winner: the directions for which it was
// found decide, the others are watched for harm, and the runs are as long as the search shows
// to be enough.
func (s *steer) confirmation(ctx context.Context, r Request, winner model.Setting, runs []model.Run) (Request, error) {
	of := s.machine.Directions()
	asked := r.Directions
	r.Directions = slices.DeleteFunc(slices.Clone(asked), func(d model.Direction) bool { return !slices.Contains(of, d) })
	r.Watched = slices.DeleteFunc(slices.Clone(asked), func(d model.Direction) bool { return slices.Contains(of, d) })
	if len(r.Directions) == 0 {
		r.Directions, r.Watched = asked, nil
	}
	if !s.machine.Record(nil).Options.Adapt {
		return r, nil
	}
	effect := math.Inf(1)
	for _, d := range r.Directions {
		effect = min(effect, math.Abs(tune.Effect(runs, s.trial.Session.Plan.Decides(), d, tune.Baseline, winner.Name)))
	}
	l, err := s.fitted(ctx, runs, effect)
	r.Flow = l.Of(s.trial.Session.Plan.Flow)
	return r, err
}
