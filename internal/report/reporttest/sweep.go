package reporttest

import (
	"math"
	"math/rand/v2"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/sweep"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
)

// SweepSession returns a session of kind sweep from desk to nas with so many passes over the
// sizes from 1 B to largest. A message of n bytes takes oneWay(n); a negative time is a stall.
// With confirm passes, the findings of the survey are measured again.
func SweepSession(passes, confirm int, largest units.Bytes, oneWay func(n units.Bytes) time.Duration) model.Session {
	planned, err := plan.NewSweep(plan.SweepOptions{Largest: largest, Sweeps: max(passes, plan.LeastSweeps), Seed: 1})
	if err != nil {
		panic(err) // the options are constants
	}
	s := base("20261121T080000-swp2", model.KindSweep, model.Plan{
		Settings: []model.Setting{{Name: "current"}}, Baseline: "current", Mode: model.FixedBlocks, MaxBlocks: passes, Confidence: 0.95,
		Directions: []model.Direction{model.To}, Seed: planned.Seed,
		Flow: sizes.With(model.Flow{Engine: "pingpong", Direction: model.To}, sizes.Params{Sizes: planned.Sizes, Mode: sizes.PingPong}),
	})
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range passes {
		s.Runs = append(s.Runs, sweepRun(rng, i+1, "current", planned.Order[i], oneWay))
	}
	survey, _ := sweep.Passes(s.Runs, model.To)
	again := sweep.Confirm(sweep.Pool(survey).Features)
	for i := range confirm {
		s.Runs = append(s.Runs, sweepRun(rng, passes+i+1, sweep.ConfirmSetting, again, oneWay))
	}
	return s
}

func sweepRun(rng *rand.Rand, n int, setting string, list []units.Bytes, oneWay func(n units.Bytes) time.Duration) model.Run {
	r := model.Run{
		Number: n, Block: n, Attempt: 1, Position: 1, Setting: setting, State: model.RunValid,
		Started: began().Add(time.Duration(n) * time.Minute), Ended: began().Add(time.Duration(n)*time.Minute + 30*time.Second),
		Flow: sizes.With(model.Flow{Engine: "pingpong", Direction: model.To}, sizes.Params{Sizes: list}),
	}
	near := model.EndReport{Host: model.Near, Waiting: "blocking thread"}
	for _, size := range list {
		p := model.Point{Size: size, Rounds: 100}
		if t := oneWay(size); t < 0 {
			p.Rounds, p.Stalled = 0, true
		} else {
			level := math.Exp(0.01 * rng.NormFloat64())
			for range 7 {
				p.Trials = append(p.Trials, time.Duration(float64(t)*level*math.Exp(0.02*rng.NormFloat64())))
			}
		}
		near.Points = append(near.Points, p)
	}
	r.Ends = []model.EndReport{near, {Host: model.Far, Waiting: "blocking thread"}}
	return r
}
