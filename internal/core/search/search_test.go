package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

func wanted() model.RateSearch {
	return model.RateSearch{Low: 1e6, High: 1e9, Limit: 0.001, Resolution: 0.02, Repeats: 5}
}

// drive searches a path whose loss at a rate is given, and returns the trials.
func drive(s model.RateSearch, loss func(units.BitRate) float64) []Trial {
	var trials []Trial
	for {
		rate, more := Next(s, trials)
		if !more {
			return trials
		}
		trials = append(trials, Trial{Rate: rate, Loss: loss(rate)})
	}
}

// A queue that overflows above some rate loses what is above it.
func TestFindsTheEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := wanted()
		edge := units.BitRate(math.Exp(rapid.Float64Range(math.Log(1.1e6), math.Log(0.99e9)).Draw(t, "edge")))
		trials := drive(s, func(r units.BitRate) float64 { return max(0, 1-float64(edge/r)) })
		got := Evaluate(s, trials)
		top := float64(edge) / (1 - s.Limit)
		if !got.Found || !got.Ended || float64(got.Rate) > top || float64(got.Rate) < top/(1+s.Resolution)/1.0001 {
			t.Fatalf("edge %v: %+v", edge, got)
		}
		if got.Runs < s.Repeats || got.Passed != got.Runs || got.Failed == 0 || got.Above <= got.Rate {
			t.Fatalf("%+v", got)
		}
		if len(trials) > 40 {
			t.Fatalf("%d trials", len(trials))
		}
	})
}

func TestEnds(t *testing.T) {
	s := wanted()
	all := Evaluate(s, drive(s, func(units.BitRate) float64 { return 0 }))
	if !all.Found || all.Rate != s.High || all.Above != 0 || all.Runs != s.Repeats {
		t.Errorf("a path without loss: %+v", all)
	}
	if math.Abs(all.Sure-math.Pow(0.05, 0.2)) > 1e-6 { // 0.5493
		t.Errorf("5 of 5 passed: at least %v", all.Sure)
	}
	none := drive(s, func(units.BitRate) float64 { return 0.5 })
	if got := Evaluate(s, none); got.Found || !got.Ended || len(none) != 4 {
		t.Errorf("a path that loses half: %+v after %d trials", got, len(none))
	}
	if got := Evaluate(s, nil); got.Found || got.Ended {
		t.Errorf("nothing tried: %+v", got)
	}
}

// A rate that passed once and fails when repeated is not the answer.
func TestRepeatsDecide(t *testing.T) {
	s := wanted()
	tried := map[units.BitRate]int{}
	lucky := units.BitRate(0)
	trials := drive(s, func(r units.BitRate) float64 {
		tried[r]++
		switch {
		case r > 400e6:
			return 0.3
		case r > 350e6: // passes the first time only
			if tried[r] == 1 {
				lucky = r
				return 0
			}
			return 0.3
		}
		return 0
	})
	got := Evaluate(s, trials)
	if lucky == 0 || !got.Found || got.Rate > 350e6 || got.Rate < 340e6 || got.Passed != s.Repeats {
		t.Errorf("%+v; lucky %v", got, lucky)
	}
}

// Whatever the losses, a search ends and keeps its word.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := wanted()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		noise := rapid.Float64Range(0, 0.01).Draw(t, "noise")
		trials := drive(s, func(r units.BitRate) float64 {
			return min(1, max(0, 1-3e8/float64(r))+noise*random.ExpFloat64()/4)
		})
		got := Evaluate(s, trials)
		if len(trials) > maxTrials {
			t.Fatalf("%d trials", len(trials))
		}
		if got.Found && (votes*(got.Runs-got.Passed) > got.Runs || got.Rate < s.Low || got.Rate > s.High) {
			t.Fatalf("%+v", got)
		}
		if got.Found && got.Runs > 1 && got.Loss > s.Limit*1.0000001 {
			t.Fatalf("%.3g lost in all runs together: %+v", got.Loss, got)
		}
		if got.Found && got.Ended && got.Runs < s.Repeats {
			t.Fatalf("%+v", got)
		}
		for _, tr := range trials {
			if tr.Rate < s.Low || tr.Rate > s.High {
				t.Fatalf("tried %v", tr.Rate)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	if err := Validate(wanted()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*model.RateSearch){
		"no low":      func(s *model.RateSearch) { s.Low = 0 },
		"upside down": func(s *model.RateSearch) { s.High = 1 },
		"endless":     func(s *model.RateSearch) { s.High = units.BitRate(math.Inf(1)) },
		"limit":       func(s *model.RateSearch) { s.Limit = 1 },
		"resolution":  func(s *model.RateSearch) { s.Resolution = math.NaN() },
		"repeats":     func(s *model.RateSearch) { s.Repeats = 0 },
	} {
		s := wanted()
		if spoil(&s); Validate(s) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Where the sender makes no more, the answer says that it is not the path.
func TestSenderIsTooSlow(t *testing.T) {
	s := wanted()
	most := units.BitRate(300e6)
	var trials []Trial
	for {
		rate, more := Next(s, trials)
		if !more {
			break
		}
		trials = append(trials, Trial{Rate: rate, Short: rate > most})
	}
	if got := Evaluate(s, trials); !got.Found || !got.Short || got.Rate > most || got.Rate < most/1.03 {
		t.Errorf("%+v", got)
	}
}

func TestTrialsOfRuns(t *testing.T) {
	run := func(state model.RunState, sent units.Bytes, got float64) model.Run {
		return model.Run{
			State: state, Flow: model.Flow{Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: 8e6})},
			Values: []model.Value{
				{Direction: model.To, Metric: model.LossRatio, Value: 0.25}, {Direction: model.To, Metric: model.Goodput, Value: got},
			},
			Ends: []model.EndReport{{Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Bytes: sent, Window: time.Second}}}},
		}
	}
	got := Trials([]model.Run{
		run(model.RunValid, 1e6, 6e6), run(model.RunInvalid, 1e6, 6e6), run(model.RunValid, 5e5, 3e6), run(model.RunValid, 1e6, 5.9e6),
	}, model.To)
	want := []Trial{{Rate: 8e6, Loss: 0.25}, {Rate: 8e6, Loss: 0.25, Short: true}, {Rate: 8e6, Loss: 0.25, Filling: true}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
