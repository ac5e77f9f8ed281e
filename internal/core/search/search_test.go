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
	"linerate/internal/must"
)

func wanted() model.RateSearch {
	return model.RateSearch{Low: 1e6, High: 1e9, Limit: 0.001, Resolution: 0.02, Repeats: 5}
}

// drive searches a path with loss as a function of the rate, and returns the trials.
func drive(s model.RateSearch, loss func(units.BitRate) float64) []Trial {
	var trials []Trial
	for {
		rate, more := Next(s, trials)
		if !more {
			return trials
		}
		trials = append(trials, counted(rate, loss(rate)))
	}
}

// counted returns a trial of 100,000 datagrams.
func counted(rate units.BitRate, loss float64) Trial {
	const sent = 100_000
	return Trial{Rate: rate, Loss: loss, Lost: int64(math.Round(loss * sent)), Sent: sent}
}

// A queue that overflows at some rate loses everything above it.
func TestFindsTheEdge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := wanted()
		edge := units.BitRate(math.Exp(rapid.Float64Range(math.Log(1.1e6), math.Log(0.99e9)).Draw(t, "edge")))
		trials := drive(s, func(r units.BitRate) float64 { return max(0, 1-float64(edge/r)) })
		got := Evaluate(s, trials)
		top := float64(edge) / (1 - s.Limit)
		must.Need(t, got.Found && got.Ended && !(float64(got.Rate) > top) && got.Most <= s.Limit && !(float64(got.Rate) < top/(1+s.Resolution)/1.0001), "edge %v: %+v", edge, got)
		must.Need(t, !got.Short && got.Runs >= s.Repeats && got.Passed == got.Runs && got.Above > got.Rate, "%+v", got)
		must.Need(t, len(trials) <= 40, "%d trials", len(trials))
	})
}

func TestEnds(t *testing.T) {
	s := wanted()
	all := Evaluate(s, drive(s, func(units.BitRate) float64 { return 0 }))
	must.True(t, all.Found && all.Rate == s.High && all.Above == 0 && all.Runs == s.Repeats, "a path without loss: %+v", all)
	must.True(t, !(math.Abs(all.Sure-math.Pow(0.05, 0.2)) > 1e-6), "5 of 5 passed: at least %v", all.Sure) // 0.5493
	none := drive(s, func(units.BitRate) float64 { return 0.5 })
	if got := Evaluate(s, none); got.Found || !got.Ended || len(none) != 4 {
		t.Errorf("a path that loses half: %+v after %d trials", got, len(none))
	}
	got := Evaluate(s, nil)
	must.True(t, !got.Found && !got.Ended, "nothing tried: %+v", got)
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
	must.True(t, lucky != 0 && got.Found && got.Rate <= 350e6 && got.Rate >= 340e6 && got.Passed == s.Repeats, "%+v; lucky %v", got, lucky)
}

// Whatever the losses, a search ends and keeps its promise.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := wanted()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		noise := rapid.Float64Range(0, 0.01).Draw(t, "noise")
		trials := drive(s, func(r units.BitRate) float64 { return min(1, max(0, 1-3e8/float64(r))+noise*random.ExpFloat64()/4) })
		got := Evaluate(s, trials)
		must.Need(t, len(trials) <= maxTrials, "%d trials", len(trials))
		must.Need(t, !got.Found || votes*(got.Runs-got.Passed) <= got.Runs && got.Rate >= s.Low && got.Rate <= s.High, "%+v", got)
		must.Need(t, !got.Found || got.Loss <= s.Limit && got.Most <= s.Limit, "%.3g lost in all runs together: %+v", got.Loss, got)
		must.Need(t, !got.Found || !got.Ended || got.Runs >= s.Repeats, "%+v", got)
		for _, tr := range trials {
			must.Need(t, tr.Rate >= s.Low && tr.Rate <= s.High, "tried %v", tr.Rate)
		}
	})
}

func TestValidate(t *testing.T) {
	must.OK(t, Validate(wanted()))
	for name, spoil := range map[string]func(*model.RateSearch){
		"no low":      func(s *model.RateSearch) { s.Low = 0 },
		"upside down": func(s *model.RateSearch) { s.High = 1 },
		"endless":     func(s *model.RateSearch) { s.High = units.BitRate(math.Inf(1)) },
		"limit":       func(s *model.RateSearch) { s.Limit = 1 },
		"resolution":  func(s *model.RateSearch) { s.Resolution = math.NaN() },
		"repeats":     func(s *model.RateSearch) { s.Repeats = 0 },
	} {
		s := wanted()
		spoil(&s)
		must.True(t, Validate(s) != nil, "%s: accepted", name)
	}
}

// Where the sender cannot go faster, the answer names the sender, not the path.
func TestSenderIsTooSlow(t *testing.T) {
	s := wanted()
	most := units.BitRate(300e6)
	var trials []Trial
	for {
		rate, more := Next(s, trials)
		if !more {
			break
		}
		trials = append(trials, Trial{Rate: rate, Short: rate > most, Sent: 100_000})
	}
	got := Evaluate(s, trials)
	must.True(t, got.Found && got.Short && got.Rate <= most && got.Rate >= most/1.03, "%+v", got)
}

func TestTrialsOfRuns(t *testing.T) {
	run := func(state model.RunState, sent units.Bytes, got float64) model.Run {
		return model.Run{
			State: state, Flow: model.Flow{Engine: udp.Name, Params: traffic.Write(udp.Params{Rate: 8e6})},
			Values: []model.Value{
				{Direction: model.To, Metric: model.LossRatio, Value: 0.25}, {Direction: model.To, Metric: model.Goodput, Value: got},
			},
			Ends: []model.EndReport{
				{Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, Bytes: sent, Window: time.Second}}},
				{Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, UDP: &model.UDPSummary{Received: 75, Lost: 25}}}},
			},
		}
	}
	got := Trials([]model.Run{
		run(model.RunValid, 1e6, 6e6), run(model.RunInvalid, 1e6, 6e6), run(model.RunValid, 5e5, 3e6), run(model.RunValid, 1e6, 5.9e6),
	}, model.To)
	want := []Trial{
		{Rate: 8e6, Loss: 0.25, Lost: 25, Sent: 100}, {Rate: 8e6, Loss: 0.25, Lost: 25, Sent: 100, Short: true}, {Rate: 8e6, Loss: 0.25, Lost: 25, Sent: 100, Filling: true},
	}
	must.True(t, slices.Equal(got, want), "%+v", got)
}

// A search reports found only with proof: a loss that is within the limit on average but not
// surely is not enough, and neither are too few datagrams.
func TestFoundIsShown(t *testing.T) {
	s := wanted() // at most 0.1 %
	near := Evaluate(s, drive(s, func(r units.BitRate) float64 {
		if r > 300e6 {
			return 0.00098 // of 500,000 datagrams: the true loss may be 0.105 %
		}
		return 0.0001
	}))
	must.True(t, near.Found && near.Rate <= 300e6 && near.Rate >= 280e6 && near.Most <= s.Limit, "%+v", near)
	for sent, want := range map[int64]bool{100: false, 300: true} { // times at most 3 x 5 runs: 1500 and 4500 of the 2996 that it takes
		var trials []Trial
		for {
			rate, more := Next(s, trials)
			if !more {
				break
			}
			trials = append(trials, Trial{Rate: rate, Sent: sent})
		}
		got := Evaluate(s, trials)
		must.True(t, got.Found == want && got.Rate == s.High && got.Ended && got.Sent >= 1500 && len(trials) <= tenacity*s.Repeats,
			"%d datagrams each: %+v after %d trials", sent, got, len(trials))
	}
	got := Evaluate(s, []Trial{{Rate: 1e6}})
	must.True(t, !got.Found && got.Most == 1, "nobody counted: %+v", got)
	// A search once reported found for runs that lost 0.66 % with a limit of 0.1 %.
	var six []Trial
	for range 6 {
		six = append(six, Trial{Rate: 5e8, Loss: 0.0066, Lost: 66, Sent: 10_000})
	}
	got = Evaluate(s, six)
	must.True(t, !got.Found, "%+v", got)
	s.Limit = 0
	got = Evaluate(s, drive(s, func(units.BitRate) float64 { return 0 }))
	must.True(t, got.Found && !(got.Most > 1e-5), "a limit of nothing: %+v", got)
}

// The upper ends are from the literature: Hanley and Lippman-Hand 1983 for none of n; Clopper
// and Pearson 1934 for k of n, by the beta distribution (qbeta(0.95, k+1, n-k) in R).
func TestMostShare(t *testing.T) {
	for _, c := range []struct {
		k, n int64
		want float64
	}{{0, 100, 0.029513}, {0, 3000, 0.000998}, {1, 100, 0.046560}, {5, 100, 0.102253}, {10, 10, 1}, {0, 0, 1}} {
		got := mostShare(c.k, c.n)
		must.True(t, math.Abs(got-c.want) <= 2e-6, "%d of %d: at most %.6f, want %.6f", c.k, c.n, got, c.want)
	}
}
