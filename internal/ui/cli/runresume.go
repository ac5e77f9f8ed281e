package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// onlyResume refuses flags that a resumed session has already decided.
func onlyResume(given func(string) bool) error {
	var bad faults
	if given("data") && !given("max-blocks") {
		bad.add("data", errors.New("a session goes on with the budget that it has, unless --max-blocks gives it more blocks"))
	}
	for _, flag := range []string{
		"factor", "set", "incomplete", "group", "preset", "undo", "before", "after", "command-time", "blocks", "time", "omit", "bytes", "interval", "parallel", "length", "window", "set-mss", "congestion", "nagle", "udp", "bitrate",
		"direction", "baseline", "objective", "guard", "margin", "tolerance", "settle", "cooldown", "seed", "no-twin", "title", "dry-run",
	} {
		if given(flag) {
			bad.add(flag, errors.New("a session goes on with the plan that it has; begin a new one without --resume"))
		}
	}
	return bad.err()
}

// resumeHint says how to resume an interrupted session.
func (a *console) resumeHint(s model.Session) string {
	kept := "data kept"
	if s.Kind == model.KindRun {
		kept = "hosts undone, data kept"
	}
	line := kept + "; go on with: linerate run --resume " + s.ID
	if commands, _ := commandsOf(s.Plan.Settings, s.Plan.Hooks); len(commands) > 0 || strings.HasPrefix(s.Near, "exec:") || slices.ContainsFunc(append(s.Plan.FarEnds(), s.Far), func(end string) bool { return strings.HasPrefix(end, "exec:") }) {
		line += " --allow-exec"
	}
	line += a.storeFlag()
	if a.db == ":memory:" {
		line = strings.TrimSuffix(strings.TrimSuffix(kept, "data kept"), ", ")
		if line != "" {
			line += "; "
		}
		line += "the data were in memory only and cannot be resumed"
	}
	return line
}

// resume resumes a stored session.
func (a *console) resume(ctx context.Context, f runFlags, fl *pflag.FlagSet, args []string) error {
	st, s, err := a.openSession(ctx, f.resume)
	if err != nil {
		return err
	}
	defer st.Close()
	file, err := a.over(config.File{Request: plan.Request{Plan: model.Plan{Path: s.Plan.Path}}}, fl)
	if err != nil {
		return err
	}
	a.path = file.Path
	longer := fl.Changed("max-blocks")
	switch {
	case s.State == model.SessionRunning:
		return runsElsewhere(s)
	case longer:
		if s, err = trial.Extend(s, file.MaxBlocks, file.Data); err != nil {
			return err
		}
	case s.State == model.SessionDone:
		return fault.WithHint(fault.Usagef("session %s is done: %s", s.ID, s.Reason),
			"see it with: linerate show %s\nwhat it left open may go on: linerate run --resume %s --max-blocks N", s.ID, s.ID)
	}
	near, far, err := f.resumedPair(s, args, a.world())
	if err != nil {
		return err
	}
	if err := f.mayReach("session "+s.ID, s.Plan.FarEnds()); err != nil {
		return err
	}
	others, err := f.resumedEnds(s, near.Text, a.world())
	if err != nil {
		return err
	}
	var commands []string
	commands, a.commands = commandsOf(s.Plan.Settings, s.Plan.Hooks)
	if err := f.mayRun("session "+s.ID, commands); err != nil {
		return err
	}
	e, err := a.reach().OpenSeveral(ctx, near, far, others)
	if err != nil {
		if far.Kind == target.Serve {
			err = fault.WithHint(err, "secrets are not stored: give the join link again with --far")
		}
		return err
	}
	defer e.Close()
	t, err := trial.Resume(a.world(), e, st, s)
	if err != nil {
		return err
	}
	if longer {
		a.talk("going on with session %s, up to %d blocks", s.ID, file.MaxBlocks)
	} else {
		a.talk("going on with session %s", s.ID)
	}
	s, err = t.Run(ctx)
	return a.finish(ctx, st, s, err)
}

// runsElsewhere refuses to resume a session that another process is running.
func runsElsewhere(s model.Session) error {
	return fault.WithHint(fault.Usagef("session %s is being measured by another linerate", s.ID), "wait until it has ended: linerate list")
}

// resumedPair parses the two ends of a stored session, or the user's replacements. A lab is
// stored as both ends.
func (f *runFlags) resumedPair(s model.Session, args []string, env app.Env) (near, far target.Target, err error) {
	nearText, farText := s.Near, s.Far
	if f.far == "" && len(args) == 1 {
		f.far = args[0]
	}
	if err := f.mayExec("session "+s.ID, nearText, farText); err != nil {
		return near, far, err
	}
	if f.far != "" {
		farText = f.far
	}
	if nearText == s.Far {
		nearText = ""
	}
	if f.from != "" {
		nearText = f.from
	}
	return target.Pair(nearText, farText, env)
}
