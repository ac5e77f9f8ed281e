package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/tune"
	"linerate/internal/lab/mistuned"
)

// The true rate that a claim is compared with is the median of truthRuns runs in each of
// truthRounds labs, in alternating order: disturbances of this machine then affect all alike.
const (
	truthRuns   = 3
	truthRounds = 3
)

// tuned is the result of the part inside the lab.
type tuned struct {
	Record    tune.Record
	Proof     model.Session
	Proven    bool
	Search    int // runs
	Runs      int // including those of the confirmation
	Seconds   float64
	Announced float64 // seconds, before the first run
	Terminal  string  // what tune printed on the way
	Changed   string  // difference of the settings of both hosts, before and after; "" if none
}

// measure tunes a case, runs the exhaustive search for comparison, and measures what was
// claimed.
func (o options) measure(ctx context.Context, c mistuned.Case) (mistuned.Row, error) {
	r := mistuned.Row{Case: c}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	began := time.Now()
	out, err := output(ctx, o.program, "lab", c.Spec(), "--", self, "inside", o.program, c.Name)
	if err != nil {
		return r, err
	}
	var t tuned
	if err := json.Unmarshal(out, &t); err != nil {
		return r, fmt.Errorf("%w: %s", err, out)
	}
	r.Seconds, r.Announced, r.Search, r.Runs, r.NotUndone, r.Proven = t.Seconds, t.Announced, t.Search, t.Runs, t.Changed, t.Proven
	for _, v := range t.Proof.Verdicts {
		if v.Metric == model.Goodput && !v.IsTwin {
			r.Low, r.High = float64(v.Interval.Low), float64(v.Interval.High)
		}
	}
	if err := os.WriteFile(filepath.Join(o.folder, c.Name+".txt"), []byte(t.Terminal), 0o644); err != nil {
		return r, err
	}
	var winner []mistuned.Set
	if t.Proven {
		winner = sets(t.Record.Winner)
		r.Winner = winner
	}
	if err := o.truth(ctx, &r, winner); err != nil {
		return r, err
	}
	r.Points = len(c.Points())
	if !r.Full() || o.all { // if the wire is full, no search can do better
		if err := o.exhaust(ctx, &r); err != nil {
			return r, err
		}
	}
	r.Took = time.Since(began).Seconds()
	return r, nil
}

// exhaust tries every combination of the grid once, and measures the best again: the best of
// many is partly luck.
func (o options) exhaust(ctx context.Context, r *mistuned.Row) error {
	for _, p := range r.Case.Points() {
		at, err := o.rate(ctx, r.Case, p, 1)
		if err != nil {
			return err
		}
		if at.Goodput > r.Best && r.Allows(at.RTT) {
			r.Best, r.BestWith = at.Goodput, p
		}
	}
	if len(r.BestWith) == 0 {
		return nil
	}
	best, err := o.rate(ctx, r.Case, r.BestWith, truthRuns)
	r.Best = best.Goodput
	return err
}

// truth measures the unchanged hosts, the winner, and the winner without each of its settings.
func (o options) truth(ctx context.Context, r *mistuned.Row, winner []mistuned.Set) error {
	settings := [][]mistuned.Set{nil}
	if len(winner) > 0 {
		settings = append(settings, winner)
	}
	if len(winner) > 1 { // without the only one everything is unchanged
		for i := range winner {
			settings = append(settings, slices.Delete(slices.Clone(winner), i, i+1))
		}
	}
	rates, trips := make([][]float64, len(settings)), make([][]float64, len(settings))
	var gains []float64
	for range truthRounds {
		for i, with := range settings {
			at, err := o.rate(ctx, r.Case, with, truthRuns)
			if err != nil {
				return err
			}
			rates[i], trips[i] = append(rates[i], at.Goodput), append(trips[i], at.RTT)
		}
		if last := len(rates[0]) - 1; len(winner) > 0 {
			gains = append(gains, math.Log(rates[1][last]/rates[0][last]))
		}
	}
	r.Before, r.RTTBefore = mistuned.Median(rates[0]), mistuned.Median(trips[0])
	r.After, r.RTTAfter = r.Before, r.RTTBefore
	if len(winner) > 0 {
		r.After, r.RTTAfter = mistuned.Median(rates[1]), mistuned.Median(trips[1])
		r.Noise = stats.StdDev(gains) / math.Sqrt(float64(len(gains)))
	}
	for _, without := range rates[min(2, len(rates)):] {
		r.Without = append(r.Without, mistuned.Median(without))
	}
	return nil
}

// point is what a lab carries.
type point struct{ Goodput, RTT float64 } // bit/s, seconds under load

// rate measures a lab with settings, n times, and returns the medians.
func (o options) rate(ctx context.Context, c mistuned.Case, with []mistuned.Set, n int) (point, error) {
	args := []string{"test", "lab:" + c.Spec(with...), "--idle", "0s", "-t", "1s", "--omit", "1500ms", "--repeat", fmt.Sprint(n), "--json=full", "--db", ":memory:", "--to"}
	if c.Direction == string(model.From) {
		args[len(args)-1] = "--reverse"
	}
	out, err := output(ctx, o.program, args...)
	if err != nil {
		return point{}, err
	}
	var doc struct{ Session model.Session }
	if err := json.Unmarshal(out, &doc); err != nil {
		return point{}, err
	}
	var rates, trips []float64
	for _, run := range doc.Session.Runs {
		if v, ok := run.Value(run.Flow.Direction, model.Goodput); ok && run.State == model.RunValid {
			rates = append(rates, v)
		}
		if v, ok := run.Value(run.Flow.Direction, model.RTT); ok {
			trips = append(trips, v)
		}
	}
	if len(rates) == 0 {
		return point{}, errors.New("no run of " + strings.Join(args, " ") + " counts")
	}
	return point{mistuned.Median(rates), mistuned.Median(trips)}, nil
}

// sets returns the settings of a winner in a lab's form.
func sets(s model.Setting) []mistuned.Set {
	out := lists.Each(s.Assignments, func(a model.Assignment) mistuned.Set { return mistuned.Set{Knob: a.Host.Of(a.Knob), Value: a.Value} })
	return out
}

// output runs a program and returns its output; the error has its error output.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, _, err := outputs(ctx, name, args...)
	return out, err
}

// outputs runs a program and returns its output and its error output.
func outputs(ctx context.Context, name string, args ...string) (out []byte, said string, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var progress bytes.Buffer
	cmd.Stderr = &progress
	out, err = cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, cmp.Or(progress.String(), string(out)))
	}
	return out, progress.String(), err
}
