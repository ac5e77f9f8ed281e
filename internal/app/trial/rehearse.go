package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// rehearse has the hosts take each setting of an experiment once and put it back, before
// the first run: a plan of which a part cannot be applied is refused as a whole. Settings
// with commands, and plans with hooks, are left out: those may make way for each other.
func (t *Trial) rehearse(ctx context.Context) error {
	p := t.Session.Plan
	if t.Session.Kind != model.KindRun && t.Session.Kind != model.KindSweep || t.resumed || len(p.Hooks) > 0 {
		return nil
	}
	var refused []error
	taken := map[string]bool{}
	for _, s := range p.Settings {
		key := hostSetting(s)
		if taken[key] || key == "" {
			continue
		}
		taken[key] = true
		t.env.Observe(app.Looking{At: "whether the hosts take " + s.Name})
		e := t.ends.At(s)
		if e == nil {
			continue
		}
		changes, err := e.Rehearse(ctx, s)
		if err == nil {
			continue
		}
		t.Session.Changes = append(t.Session.Changes, changes...)
		if ctx.Err() != nil {
			return errors.Join(err, t.notUndone())
		}
		if errors.Is(err, runner.ErrContact) { // the runs will tell whether this setting did it
			if _, err := t.reconnect(ctx); err != nil {
				return errors.Join(fmt.Errorf("try %s: %w", s.Name, err), t.notUndone())
			}
			continue
		}
		refused = append(refused, fmt.Errorf("%s cannot be applied: %w", s.Name, err))
	}
	if len(refused) == 0 {
		return nil
	}
	if err := t.notUndone(); err != nil {
		return errors.Join(append(refused, err)...)
	}
	err := t.fault(errors.Join(refused...), analysis.Result{})
	if fault.HintOf(err) != "" {
		return err
	}
	return fault.WithHint(err, "nothing was measured, and the hosts are as they were: leave that value out, or name another one")
}

// hostSetting is what a setting changes of hosts, "" for nothing that can be rehearsed.
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
