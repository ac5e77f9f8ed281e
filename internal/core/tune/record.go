package tune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"linerate/internal/core/analysis"
	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
)

// Record is the course of a search, as a session stores it: all inputs of the machine, to
// replay it, and the resulting state.
type Record struct {
	Options Options       `json:"options"`
	Inputs  []Input       `json:"inputs"`
	Ideas   []Fate        `json:"ideas"`            // all, with their state so far
	Winner  model.Setting `json:"winner"`           // the baseline if nothing helped
	Reason  string        `json:"reason,omitempty"` // why the search ended
	Runs    int           `json:"runs"`             // without the confirmation
	// Confirmation is the session that compares the winner with the baseline.
	Confirmation string `json:"confirmation,omitempty"`
}

// Input is one input of the machine; one field is set.
type Input struct {
	Look   *Look `json:"look,omitempty"`
	Answer *bool `json:"answer,omitempty"`
	Block  int   `json:"block,omitempty"` // number of the runs' block
	Runs   int   `json:"runs,omitempty"`  // most runs before the confirmation, as what a run takes is known so far
}

// Read returns the record of a session, and false if it has none.
func Read(s *model.Session) (Record, bool, error) {
	if s.Tuning == "" {
		return Record{}, false, nil
	}
	var r Record
	if err := json.Unmarshal([]byte(s.Tuning), &r); err != nil {
		return r, false, fmt.Errorf("session %s: its record of the search: %w", s.ID, err)
	}
	return r, true, nil
}

// Text returns the record in its stored form.
func (r Record) Text() (model.Params, error) {
	b, err := json.Marshal(r)
	return model.Params(b), err
}

// Look returns the last look at an incumbent, nil before the first.
func (r Record) Look() *Look {
	for _, in := range slices.Backward(r.Inputs) {
		if in.Look != nil {
			return in.Look
		}
	}
	return nil
}

// AtCeiling reports whether the last look found nothing left to gain in any direction.
func (r Record) AtCeiling() bool {
	l := r.Look()
	if l == nil {
		return false
	}
	for _, share := range l.Reached {
		if share.Or(0) < cmp.Or(r.Options.Enough, Enough) {
			return false
		}
	}
	return len(l.Reached) > 0
}

// Replay returns the machine in the state of the record, given the runs of its session.
func Replay(r Record, runs []model.Run) *Machine {
	m := New(r.Options)
	for _, in := range r.Inputs {
		m.Take(in, runs)
	}
	return m
}

// Take applies one input to the machine.
func (m *Machine) Take(in Input, runs []model.Run) {
	switch {
	case in.Look != nil:
		m.Looked(*in.Look)
	case in.Answer != nil:
		m.Answered(*in.Answer)
	case in.Runs > 0:
		m.most = in.Runs
	default:
		if b, ok := m.Readings(in.Block, runs); ok {
			m.Measured(b)
		}
	}
}

// Readings returns the block of runs as the answer to the present step, and false if the block
// is incomplete.
func (m *Machine) Readings(block int, runs []model.Run) (Block, bool) {
	step, out := m.Next(), Block{}
	var own []model.Run
	for _, r := range runs {
		if r.Block == block && r.State != model.RunInterrupted && r.State != model.RunPlanned && r.State != model.RunEqualLoad {
			own = append(own, r)
			out[r.Setting] = m.reading(r, step.Direction)
		}
	}
	// The latency of a setting that carries more is compared at the load of the incumbent.
	for _, p := range analysis.AtEqualLoad(m.o.Guards, step.Settings[0].Name, own, nil) {
		m.equalLoad(out[p.Setting], step.Direction, block, p.Setting, runs)
	}
	for _, s := range step.Settings {
		if _, ok := out[s.Name]; !ok {
			return nil, false
		}
	}
	return out, true
}

// reading returns the objective and the guards of one run.
func (m *Machine) reading(r model.Run, d model.Direction) Reading {
	if r.State != model.RunValid {
		return Reading{Failed: r.Reason}
	}
	value, measured := r.Value(d, m.o.Objective)
	out := Reading{Log: good(m.o.Objective, value)}
	if !measured || math.IsNaN(out.Log) {
		return Reading{Failed: "no " + metric.Name(m.o.Objective) + " was measured"}
	}
	for _, g := range m.o.Guards {
		harm := math.NaN()
		if v, ok := r.Value(d, g.Metric); ok {
			harm = good(g.Metric, v)
		}
		out.Harm = append(out.Harm, harm)
	}
	return out
}

// equalLoad replaces the readings of guards that follow the load by those of the setting's run
// at equal load, NaN without one.
func (m *Machine) equalLoad(out Reading, d model.Direction, block int, setting string, runs []model.Run) {
	at := slices.IndexFunc(runs, func(r model.Run) bool {
		return r.Block == block && r.Setting == setting && r.State == model.RunEqualLoad
	})
	for i, g := range m.o.Guards {
		if i >= len(out.Harm) || !metric.FollowsLoad(g.Metric) {
			continue
		}
		out.Harm[i] = math.NaN()
		if at < 0 {
			continue
		}
		if v, ok := runs[at].Value(d, g.Metric); ok {
			out.Harm[i] = good(g.Metric, v)
		}
	}
}

// good converts a value to a scale on which differences count and more is better: its
// logarithm, or the value itself if it can be 0. NaN if there is none.
func good(id model.Metric, v float64) float64 {
	info := metric.Describe(id)
	if info.CanBe0 {
		if info.LowIs {
			return -v
		}
		return v
	}
	l, ok := stats.LogValue(v, info.Sense())
	if !ok {
		return math.NaN()
	}
	return l
}

// Record returns the course so far; inputs are those that the machine was given.
func (m *Machine) Record(inputs []Input) Record {
	r := Record{Options: m.o, Inputs: inputs, Ideas: m.Fates(), Winner: m.incumbent, Reason: m.reason, Runs: m.runs}
	for i, f := range r.Ideas {
		if f.State == Racing && f.Blocks == 0 && m.race.blocks == 0 {
			r.Ideas[i].State = Waiting // its race is about to start
		}
	}
	return r
}
