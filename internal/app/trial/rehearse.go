package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/control/runner"
	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/files"
	"linerate/internal/fault"
)

// rehearse has the hosts apply and undo each setting of an experiment once before the first
// run: if a part of a plan cannot be applied, the whole plan is refused. It skips settings
// with commands, and plans with hooks, since those may depend on each other.
func (t *Trial) rehearse(ctx context.Context) error {
	p := t.Session.Plan
	if t.Session.Kind != model.KindRun && t.Session.Kind != model.KindSweep || t.resumed || len(p.Hooks) > 0 {
		return nil
	}
	var refused []error
	taken := map[string]bool{}
	lost := map[string]string{} // packets that do not arrive, by setting of the hosts
	for _, s := range p.Settings {
		key := hostSetting(s)
		if taken[key] || key == "" {
			continue
		}
		taken[key] = true
		t.env.Observe(app.Looking{At: "whether the hosts take " + s.Name})
		no, err := t.Try(ctx, s)
		if err != nil {
			return err
		}
		switch e := t.ends.At(s); {
		case errors.Is(no, runner.ErrContact): // the runs will show whether this setting was the cause
		case no != nil:
			refused = append(refused, fmt.Errorf("%s cannot be applied: %w", s.Name, no))
		case e != nil:
			if lost[key], err = t.vanishes(ctx, e, s); err != nil {
				return errors.Join(err, t.notUndone())
			}
		}
	}
	if len(refused) == 0 {
		return t.leaveOut(lost)
	}
	err := t.fault(errors.Join(refused...), analysis.Result{})
	if fault.HintOf(err) != "" {
		return err
	}
	return fault.WithHint(err, "nothing was measured, and the hosts are as they were: leave that value out, or name another one")
}

// Try has the hosts apply and undo a setting once, without traffic. It returns why they do not
// take it; runner.ErrContact if contact was lost over it, and made again. err says that the
// session cannot go on.
func (t *Trial) Try(ctx context.Context, s model.Setting) (no, err error) {
	e := t.ends.At(s)
	if e == nil {
		return nil, nil
	}
	changes, no := e.Rehearse(ctx, s)
	if no == nil {
		return nil, nil
	}
	t.Session.Changes = append(t.Session.Changes, changes...)
	if ctx.Err() != nil {
		return nil, errors.Join(no, t.notUndone())
	}
	if errors.Is(no, runner.ErrContact) {
		if _, err := t.reconnect(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("try %s: %w", s.Name, err), t.notUndone())
		}
		return no, nil
	}
	if err := t.notUndone(); err != nil {
		return nil, errors.Join(no, err)
	}
	return no, nil
}

// vanishes names the packets of the plan that do not arrive under setting s, "" for none.
func (t *Trial) vanishes(ctx context.Context, e *target.Ends, s model.Setting) (string, error) {
	flow := t.Session.Plan.Flow
	if flow.Engine == files.Name || t.Session.Kind == model.KindSweep { // these have no duration
		flow.Engine, flow.Params = bulk.Name, ""
	}
	directions := t.Session.Plan.Directions
	if len(directions) == 0 {
		directions = flow.Direction.Parts()
	}
	return Arrives(ctx, e, s, flow, directions)
}

// leaveOut removes from the plan the settings under which packets do not arrive, and reports
// them. It returns an error if nothing is left to compare.
func (t *Trial) leaveOut(lost map[string]string) error {
	var names []string
	because := map[string][]string{}
	for _, s := range t.Session.Plan.Settings {
		if why := lost[hostSetting(s)]; why != "" {
			names, because[why] = append(names, s.Name), append(because[why], s.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	reasons := slices.Sorted(maps.Keys(because))
	p := plan.Drop(t.Session.Plan, names)
	if slices.Contains(names, p.Baseline) || len(plan.Candidates(p)) == 0 {
		return fault.New(fault.Unsupported, fmt.Errorf("nothing is left to measure: %s", strings.Join(reasons, "; ")),
			"linerate check %s says which packets pass", t.ends.FarText)
	}
	for _, why := range reasons {
		text := fmt.Sprintf("left out %s: %s", plain.And(because[why]), why)
		t.Session.Warnings = append(t.Session.Warnings, text)
		t.env.Observe(app.Warning{Text: text})
	}
	t.Session.Plan = p
	return nil
}

// hostSetting returns what a setting changes on hosts, "" if it cannot be rehearsed.
func hostSetting(s model.Setting) string {
	var words []string
	for _, a := range s.Assignments {
		if a.IsCommand() {
			return ""
		}
		if a.Host != "" {
			words = append(words, a.Host.Of(a.Knob)+"="+a.Value)
		}
	}
	if len(words) == 0 {
		return ""
	}
	slices.Sort(words)
	return strings.Join(append(words, s.FarEnd()), " ")
}
