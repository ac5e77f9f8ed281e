package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/app/change"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

func (a *console) undoCommand() *cobra.Command {
	var state string
	var atBoot bool
	var kept, acknowledge bool
	c := &cobra.Command{
		Use: "undo [HOST]", Short: "put back what linerate set and you confirmed, and what a cut session left",
		Long: `undo puts back what the journal says linerate changed on this machine, or on
HOST: what was confirmed with linerate set, and what a session that was cut short
left. Every setting that still holds what linerate wrote gets its old value back,
newest first. What another program changed meanwhile is left alone and
reported.

If a driver is busy, undo waits: a few seconds here, then in a process of its own,
which tries until it is done. If the journal itself was damaged, its whole records are
undone, the rest is kept beside it, and undo ends with exit code 7 until you have
looked at it, and say so with --acknowledge.

With --kept it takes back the files that linerate keep wrote instead: each is as it
was before, byte for byte, or gone where there was none. The running values stay.`,
		Example: "  linerate undo\n  linerate undo 'exec:10.0.0.2 ip netns exec b linerate agent'\n  linerate undo --kept root@nas",
		Args:    atMostHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if acknowledge && (kept || atBoot) {
				return fault.Usagef("--acknowledge goes alone")
			}
			if acknowledge && len(args) == 0 {
				return a.undoAcknowledge(state)
			}
			a.acknowledge = acknowledge
			if kept {
				return a.undoKept(cmd.Context(), args, state)
			}
			undo := a.undoOn
			if atBoot {
				undo = a.undoAtBoot
			}
			changes, err := undo(cmd.Context(), args, state)
			err = local.UndoFault(err)
			if err != nil && len(changes) == 0 {
				return err
			}
			if err == nil && !atBoot {
				change.TellUndone(a.world(), target.Redact(strings.Join(args, "")), state)
			}
			return errors.Join(a.printUndone(changes), err)
		},
	}
	c.Flags().BoolVar(&acknowledge, "acknowledge", false, "you have seen what is left of a damaged journal: it is kept, and reported no more")
	c.Flags().BoolVar(&kept, "kept", false, "take back the files that linerate keep wrote")
	c.Flags().BoolVar(&atBoot, "at-boot", false, "only what was not confirmed: what the job does that --at-boot of other commands installs")
	_ = c.Flags().MarkHidden("at-boot") // it exists
	c.Flags().StringVar(&state, "state", "", "directory of the journal (default: $LINERATE_STATE, else the system's)")
	return c
}

func (a *console) undoOn(ctx context.Context, args []string, state string) ([]model.Change, error) {
	if len(args) == 0 {
		return a.here(state, "").Revert(ctx, "")
	}
	if state != "" {
		return nil, fault.Usagef("--state is for this machine; write it into the command of exec:, as in exec:ADDRESS linerate agent --state DIR")
	}
	return change.UndoAt(ctx, a.world(), a.reach(), args[0])
}

func (a *console) printUndone(changes []model.Change) error {
	if a.json {
		if changes == nil {
			changes = []model.Change{}
		}
		if err := a.document("linerate/undo/v1", map[string]any{"changes": changes}); err != nil {
			return err
		}
	} else if len(changes) == 0 {
		fmt.Fprintln(a.Out, "nothing to undo")
	}
	var left []string
	for _, c := range changes {
		if !a.json {
			fmt.Fprintf(a.Out, "%s (%s): %s\n", c.Knob, c.Native, a.undoneText(runtime.GOOS, c))
		}
		if c.State == model.ChangeFailed || c.State == model.ChangeApplied {
			left = append(left, string(c.Knob))
		}
	}
	if len(left) > 0 {
		return &fault.Error{Kind: fault.NotUndone, Err: fmt.Errorf("%d of %d changes not undone", len(left), len(changes)),
			Hint: "see the reasons above; most settings need root"}
	}
	return nil
}

func (a *console) undoneText(system string, c model.Change) string {
	switch c.State {
	case model.ChangeUndone:
		if c.Detail == model.DetailForgotten { // its current value is unknown
			return "nothing to put back: " + c.Detail
		}
		back := "back to " + a.readable(system, c.Knob, c.Old)
		if c.Detail != "" {
			back += " (" + c.Detail + ")"
		}
		return back
	case model.ChangeForeign:
		return "changed by another program meanwhile, left alone: " + c.Detail
	case model.ChangeApplied:
		return "still changed: " + c.Detail
	default:
		return "not undone: " + c.Detail
	}
}

// undoAcknowledge is undo --acknowledge on this machine.
func (a *console) undoAcknowledge(state string) error {
	files, err := local.Acknowledge(a.Version, state)
	if err != nil {
		return local.UndoFault(err)
	}
	if a.json {
		return a.document("linerate/undo/v1", map[string]any{"changes": []model.Change{}, "acknowledged": append([]string{}, files...)})
	}
	if len(files) == 0 {
		fmt.Fprintln(a.Out, "nothing to acknowledge")
	}
	for _, path := range files {
		fmt.Fprintf(a.Out, "acknowledged, and kept as %s\n", path)
	}
	return nil
}
