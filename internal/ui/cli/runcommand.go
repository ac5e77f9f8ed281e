package cli

import (
	"fmt"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/ui/config"
)

// commandFlags puts the undo commands of the flags, and how long commands may take,
// into the factors of file.
func (f *runFlags) commandFlags(file *config.File, given func(string) bool, bad *faults) {
	for _, text := range f.undo {
		bad.add("undo", config.Undo(file.Factors, text))
	}
	if !given("command-time") {
		return
	}
	limit := bad.duration("command-time", f.commandTime)
	if limit <= 0 || limit > model.MaxCommandTime {
		bad.add("command-time", fmt.Errorf("%s is not between nothing and %s", f.commandTime, model.MaxCommandTime))
	}
	for i := range file.Factors {
		if file.Factors[i].Command.Run != "" {
			file.Factors[i].Command.Limit = limit
		}
	}
}

// commandsOf are the commands of settings, each once, and the ends that run them.
func commandsOf(settings []model.Setting) (commands []string, ends []model.Host) {
	for _, s := range settings {
		for _, a := range s.Assignments {
			if !a.IsCommand() {
				continue
			}
			if !slices.Contains(ends, a.Host) {
				ends = append(ends, a.Host)
			}
			if !slices.Contains(commands, a.Command.Run) {
				commands = append(commands, a.Command.Run)
			}
		}
	}
	return commands, ends
}

// mayRun refuses the commands of a plan that somebody else may have written.
func (f *runFlags) mayRun(where string, commands []string) error {
	if f.allowExec || len(commands) == 0 {
		return nil
	}
	return withHint(usagef("%s wants to run a command: %s", where, plain.Line(commands[0])), "if that is what you want, add --allow-exec")
}
