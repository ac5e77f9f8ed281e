package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/command"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
)

// A command is in the journal like a setting: before it runs, with its undo command as the
// old text. Its effect cannot be read back, so its undo is not compared with anything: it
// runs for every command that was announced, even for one that failed or was cut off half
// way, and must tolerate that.

// failed is the text of KindApplied for a command that is known to have failed.
const failed = "failed"

// apart returns the settings in changes, and the commands to run.
func apart(changes []model.Assignment) (settings, commands []model.Assignment) {
	for _, c := range changes {
		switch {
		case !strings.HasPrefix(string(c.Knob), model.CommandPrefix):
			settings = append(settings, c)
		case c.Value != model.Off:
			commands = append(commands, c)
		}
	}
	return settings, commands
}

// placeOf returns the place of a command in the journal.
func placeOf(id model.KnobID) hostknob.Place {
	return hostknob.Place{Mechanism: knob.Command, Native: string(id)}
}

func isCommand(o journal.Unfinished) bool { return o.Place.Mechanism == knob.Command }

// planCommands returns the steps of commands, in order.
func (t *transaction) planCommands(commands []model.Assignment) ([]step, error) {
	var steps []step
	for _, c := range commands {
		p := placeOf(c.Knob)
		if c.Command.Run == "" || c.Command.Undo == "" || c.Command.Limit <= 0 || c.Command.Limit > model.MaxCommandTime {
			return nil, fmt.Errorf("%s: a command needs its undo command, and a limit of at most %s", c.Knob, model.MaxCommandTime)
		}
		for _, o := range t.m.j.OpenIntents() {
			if o.Place == p && !t.m.elsewhere(o) {
				return nil, fmt.Errorf("%s: an earlier run of it is not undone yet (by process %d)", p, o.Origin.PID)
			}
		}
		t.number++
		steps = append(steps, step{Assignment: c, held: &held{place: p, old: c.Command.Undo}, new: c.Command.Run, number: t.number})
	}
	return steps, nil
}

// run runs the command of a step and records how it ended. The end of the agent ends it.
func (t *transaction) run(ctx context.Context, s step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-t.m.gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := command.Run(ctx, s.new, s.Command.Limit)
	t.m.after("write " + string(s.Knob))
	text := s.new
	if err != nil {
		text, err = failed, fmt.Errorf("%s: %w", s.Knob, err)
	}
	r := journal.Record{Kind: journal.KindApplied, Transaction: t.id, Number: s.number, Text: text}
	return errors.Join(err, t.m.record(r, "applied "+string(s.Knob)))
}

// undoCommand runs the undo command of one command. If that fails, the command stays open and
// is tried again, unless there may be nothing to undo: the command is known to have failed,
// or the machine was rebooted since.
func (m *machine) undoCommand(ctx context.Context, group []journal.Unfinished) (model.ChangeState, string, error) {
	last := group[len(group)-1]
	limit := min(max(last.Limit, time.Second), model.MaxCommandTime)
	err := command.Run(ctx, last.Old, limit)
	m.after("restore " + string(last.Knob))
	var why string
	switch {
	case len(last.Wrote) > 1 && last.Wrote[len(last.Wrote)-1] == failed:
		why = "it had failed"
	case !last.Origin.SameBoot(m.origin):
		why = "the machine was restarted since it was run"
	}
	switch {
	case err == nil:
		return model.ChangeUndone, why, nil
	case why != "":
		return model.ChangeFailed, why + ", and its undo failed too, which is not tried again: " + err.Error(), nil
	default:
		return model.ChangeFailed, err.Error(), fmt.Errorf("undo %s: %w", last.Knob, err)
	}
}
