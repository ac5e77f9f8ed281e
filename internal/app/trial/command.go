package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"linerate/internal/app/target"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// askCommand is the deadline of a change that only tests whether a host accepts a setting.
const askCommand = 30 * time.Second

// commands checks before the first run that each host runs the commands of the plan, by
// applying them switched off.
func (t *Trial) commands(ctx context.Context) error {
	for _, h := range []model.Host{model.Near, model.Far} {
		var off []model.Assignment
		seen := map[model.KnobID]bool{}
		for _, a := range assigned(t.Session.Plan) {
			if a.Host == h && a.IsCommand() && !seen[a.Knob] {
				seen[a.Knob] = true
				a.Value = model.Off
				off = append(off, a)
			}
		}
		if len(off) == 0 {
			continue
		}
		for _, e := range t.ends.All() {
			if err := nothing(ctx, e.Client(h), off); err != nil {
				if errors.Is(err, session.ErrRefused) {
					err = fault.New(fault.Unsupported, err, "the far end runs commands where its agent is yours: user@host, or exec:ADDRESS ... linerate agent --allow-commands")
				}
				return err
			}
		}
	}
	return nil
}

// assigned returns all assignments of a plan's settings and hooks.
func assigned(p model.Plan) []model.Assignment {
	var all []model.Assignment
	for _, s := range p.Settings {
		all = append(all, s.Assignments...)
	}
	return append(all, p.Hooks...)
}

// nothing has a host apply assignments for a moment: it succeeds if the host accepts them and
// holds no earlier transaction.
func nothing(ctx context.Context, c *session.Client, as []model.Assignment) error {
	_, err := c.Apply(ctx, as, askCommand)
	_, undo := c.Undo(context.WithoutCancel(ctx))
	return errors.Join(err, undo)
}

// settleCommand finds the outcome of a command whose undo was not seen: if the journal of its
// host has nothing open any more, the undo was done.
func (t *Trial) settleCommand(ctx context.Context, c model.Change, client *session.Client) model.Change {
	off := model.Assignment{Host: c.Host, Knob: c.Knob, Value: model.Off, Command: model.Command{Run: c.New, Undo: c.Old, Limit: time.Second}}
	if err := nothing(ctx, client, []model.Assignment{off}); err != nil {
		c.Detail = "its undo was not seen: " + strings.Join(strings.Fields(err.Error()), " ")
		return c
	}
	c.State, c.Detail = model.ChangeUndone, "its undo was not seen; nothing is open in the journal of its host"
	return c
}

// Rehearse has both hosts apply each of settings for a moment, without measuring, and returns
// what they refuse, "" for nothing. All changes are undone. It returns an error if a host is
// lost or ctx ends.
func Rehearse(ctx context.Context, e *target.Ends, settings []model.Setting) (refused string, err error) {
	for _, s := range settings {
		for _, h := range []model.Host{model.Near, model.Far} {
			var as []model.Assignment
			for _, a := range s.Assignments {
				if a.Host == h {
					as = append(as, a)
				}
			}
			if len(as) == 0 {
				continue
			}
			if e.Client(h) == nil {
				return fmt.Sprintf("%s: %s changes no settings", as[0].Knob, e.Foreign()), nil
			}
			err := nothing(ctx, e.Client(h), as)
			switch {
			case ctx.Err() != nil || errors.Is(err, session.ErrLost):
				return "", err
			case err != nil:
				return err.Error(), nil
			}
		}
	}
	return "", nil
}
