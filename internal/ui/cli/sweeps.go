package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/sweep"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/ui/config"
)

// oneSweep is one of several sweeps: one far host with one combination of settings.
type oneSweep struct {
	near, far target.Target
	end       string // name of the far host among the others
	plan      model.Plan
}

// name distinguishes the sweep from the others.
func (s oneSweep) name() string {
	name := s.end
	if s.plan.Baseline != trial.Current {
		name += " " + s.plan.Baseline
	}
	return name
}

// sweeps returns the sweeps that the flags describe, after checking all of them for mistakes.
func (a *console) sweeps(f sweepFlags, asked trial.Sweep, given app.Values, hosts []string) ([]oneSweep, error) {
	var bad faults
	check := knobChecker{a.knobs, a.kinds(), a.textOf}
	grid := config.File{Kinds: a.kinds()}
	for _, text := range f.sets {
		s, err := config.ParseNamed(text, check)
		bad.add("set", err)
		grid.Named = append(grid.Named, s)
	}
	for _, text := range f.factors {
		factor, err := config.ParseFactor(text, check)
		bad.add("factor", err)
		if factor.Knob != model.FarEnd {
			grid.Factors = append(grid.Factors, factor)
			continue
		}
		for _, l := range factor.Levels {
			hosts = append(hosts, factor.Targets[l.Value])
		}
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	settings := grid.Combinations()
	switch {
	case len(hosts) == 0:
		return nil, fault.WithHint(fault.Usagef("no host named"), "name the far end: linerate sweep HOST ..., or --factor far=HOST,HOST")
	case len(settings) == 0 || len(hosts)*len(settings) > config.MaxSettings:
		return nil, fault.Usagef("these factors make more than %d sweeps", config.MaxSettings)
	case f.output != "" && len(hosts)*len(settings) > 1:
		return nil, fault.WithHint(fault.Usagef("--output: there are %d curves", len(hosts)*len(settings)), "measure one of them alone, or leave --output out and take linerate report")
	}
	var out []oneSweep
	for _, host := range hosts {
		for _, s := range settings {
			near, far, err := target.Pair(f.from, host, a.world())
			if err != nil {
				return nil, err
			}
			one := oneSweep{near: near, far: far}
			if one.plan, err = asked.Plan(a.world(), &one.far, given); err != nil {
				return nil, err
			}
			if s.Name != config.Current {
				one.with(s)
				if err := trial.Takes(a.world(), one.plan); far.Kind != target.Foreign && err != nil {
					return nil, err
				}
			}
			out = append(out, one)
		}
	}
	targets := lists.Each(out, func(one oneSweep) string { return one.far.Text })
	for i, name := range model.EndNames(targets) {
		out[i].end = name
	}
	return out, nil
}

// with sets the setting under which the sweep is measured.
func (s *oneSweep) with(setting model.Setting) {
	s.plan.Settings, s.plan.Baseline = []model.Setting{setting}, setting.Name
	if slices.ContainsFunc(setting.Assignments, func(a model.Assignment) bool { return a.Host != "" }) {
		s.plan.Settle = stats.DefaultSettle
	}
	for i := range s.plan.Order {
		s.plan.Order[i] = []string{setting.Name}
	}
}

// sweepAll measures one sweep after the other and prints a line for each. A failed one ends
// them all: those before it are stored.
func (a *console) sweepAll(ctx context.Context, title string, all []oneSweep) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	var done []model.Session
	for i, one := range all {
		a.talk("sweep %d of %d: %s", i+1, len(all), one.name())
		s, err := a.sweepOne(ctx, st, one, strings.TrimPrefix(title+": "+one.name(), ": "))
		if err != nil {
			if !a.json {
				a.tellSweeps(done, all)
			}
			return a.finish(ctx, st, s, fmt.Errorf("sweep %d of %d, %s: %w", i+1, len(all), one.name(), err))
		}
		done = append(done, s)
	}
	if !a.json {
		a.tellSweeps(done, all)
		return nil
	}
	return a.listOf(ctx, st, done)
}

func (a *console) sweepOne(ctx context.Context, st results, one oneSweep, title string) (model.Session, error) {
	e, err := a.reach().Open(ctx, one.near, one.far)
	if err != nil {
		return model.Session{}, err
	}
	defer e.Close()
	return trial.New(a.world(), e, st, model.KindSweep, title, target.RedactAll(os.Args), one.plan).Run(ctx)
}

// tellSweeps prints the result of each sweep, and the command that draws all of them.
func (a *console) tellSweeps(done []model.Session, all []oneSweep) {
	var ids []string
	wide := 0
	for i, s := range done {
		ids, wide = append(ids, s.ID), max(wide, len(all[i].name()))
	}
	for i, s := range done {
		section := report.Build(s, report.Options{Kinds: a.kinds()}).Section
		if section == nil {
			continue
		}
		curves, _ := section.Data.(*sweep.Document)
		for _, w := range curves.Directions {
			text := "no size has a time"
			if w.Largest != nil {
				text = fmt.Sprintf("at most %s, with messages of %s; half of that from %s on", w.Largest.Goodput, sweep.SizeText(w.Largest.Size), sweep.SizeText(w.Half))
			}
			fmt.Fprintf(a.Out, "  %-*s  %s\n", wide, all[i].name(), text)
			for _, x := range w.Findings {
				fmt.Fprintf(a.Out, "  %*s  %s\n", wide, "", x.Text)
			}
		}
	}
	if len(ids) < 2 {
		return
	}
	fmt.Fprintf(a.Out, "\n  all in one picture:\n    linerate report %s --beside %s%s\n", ids[0], strings.Join(ids[1:], ","), a.storeFlag())
}
