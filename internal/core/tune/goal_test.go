package tune_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"linerate/internal/core/candidate"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/must"
)

// queue is a path with a deep queue: a window that is larger than it needs waits there,
// and a smaller one than that costs rate. What decides is the latency, the rate is a guard.
type queue struct {
	rng    *rand.Rand
	bdp    float64 // bytes
	window int64   // of the hosts as they are
}

func (q queue) run(s model.Setting) tune.Reading {
	w := float64(q.window)
	for _, a := range s.Assignments {
		v, _ := strconv.ParseInt(a.Value, 10, 64)
		w = float64(v)
	}
	noise := func() float64 { return 0.02 * q.rng.NormFloat64() }
	latency := math.Log(0.02*max(1, w/q.bdp)) + noise()
	goodput := math.Log(1e8*min(1, w/q.bdp)) + noise()
	return tune.Reading{Log: -latency, Harm: []float64{goodput}}
}

func (q queue) look() tune.Look {
	l := tune.Look{Reached: map[model.Direction]fact.Of[float64]{model.To: fact.Unknown[float64]("the test")}}
	for _, v := range []int64{4 << 20, 1 << 20, 256 << 10, 64 << 10} {
		text := strconv.FormatInt(v, 10)
		l.Ideas = append(l.Ideas, tune.Idea{Candidate: candidate.Candidate{
			Setting:   model.Setting{Name: "far.window=" + text, Assignments: []model.Assignment{{Host: model.Far, Knob: "window", Value: text}}},
			Direction: model.To, Rule: candidate.QueueRule, Levels: "far.window", Now: fact.Known(strconv.FormatInt(q.window, 10), "the test"),
		}})
	}
	return l
}

// Where the latency decides, the strongest value is tried first; one that costs more rate
// than the guard allows leaves the next milder one.
func TestGoalLatency(t *testing.T) {
	right := 0
	for seed := range uint64(100) {
		q := queue{rng: rand.New(rand.NewPCG(seed, 21)), bdp: 250_000, window: 16 << 20}
		m := tune.New(tune.Options{
			Margin: stats.LogMargin(3), Objective: model.LatencyP50, Guards: []model.Guard{{Metric: model.Goodput, Margin: 10}},
		})
		for s := m.Next(); s.Kind != tune.KindConfirm && s.Kind != tune.KindEnd; s = m.Next() {
			if s.Kind == tune.KindLook {
				m.Looked(q.look())
				continue
			}
			b := tune.Block{}
			for _, x := range s.Settings {
				b[x.Name] = q.run(x)
			}
			m.Measured(b)
		}
		if s, won := m.Winner(); won && s.Assignments[0].Value == strconv.Itoa(256<<10) {
			right++
		}
		f := m.Fates()[3]
		must.True(t, f.State == tune.Guarded && f.Detail == string(model.Goodput), "seed %d: 64 KiB, which carries a quarter: %+v", seed, f)
	}
	must.True(t, right >= 95, "256 KiB, which is what the path needs, in %d of 100 worlds", right)
}

// The front holds the settings that nothing beats in both rate and latency, whatever their
// order; a run of the other direction, or one that does not count, is no part of it. A setting
// that does nothing in the direction does not stand there by chance.
func TestFront(t *testing.T) {
	run := func(name string, d model.Direction, rate, latency float64, s model.RunState) model.Run {
		return model.Run{Setting: name, State: s, Flow: model.Flow{Direction: d}, Values: []model.Value{
			{Metric: model.Goodput, Direction: d, Value: rate}, {Metric: model.LatencyP50, Direction: d, Value: latency},
		}}
	}
	runs := []model.Run{
		run("4MiB", model.To, 94e6, 0.095, model.RunValid), run("current", model.To, 14e6, 0.010, model.RunValid),
		run("256KiB", model.To, 93e6, 0.012, model.RunValid), run("worse", model.To, 60e6, 0.030, model.RunValid),
		run("from", model.From, 99e6, 0.001, model.RunValid), run("broken", model.To, 99e6, 0.001, model.RunInvalid),
		run("idle", model.To, 96e6, 0.1, model.RunValid), run("256KiB + from", model.To, 93.5e6, 0.0121, model.RunValid), run("from + 4MiB", model.To, 95e6, 0.096, model.RunValid),
		run("256KiB + from", model.From, 98e6, 0.0005, model.RunValid), run("current", model.From, 50e6, 0.0001, model.RunValid), run("256KiB", model.From, 51e6, 0.0002, model.RunValid),
	}
	rec := tune.Record{Winner: model.Setting{Name: "256KiB + from"}}
	for name, state := range map[string]tune.State{"4MiB": tune.Guarded, "256KiB": tune.Helped, "worse": tune.Harmful, "from": tune.Helped, "idle": tune.NoEffect} {
		f := tune.Fate{State: state}
		f.Setting.Name, f.Direction = name, map[bool]model.Direction{true: model.From, false: model.To}[name == "from"]
		rec.Ideas = append(rec.Ideas, f)
	}
	for d, want := range map[model.Direction][]string{model.To: {"current", "256KiB + from taken", "4MiB"}, model.From: {"current", "256KiB + from taken"}} {
		var got []string
		for _, p := range rec.Front(runs, d) {
			got = append(got, p.Setting+map[bool]string{true: " taken"}[p.Taken])
		}
		must.Same(t, got, want)
	}
	rec.Winner.Name = "from" // which does nothing to the far host
	must.True(t, rec.Front(runs, model.To)[0].Taken, "the baseline does not stand for the winner")
}
