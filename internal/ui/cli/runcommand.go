package cli

import (
	"cmp"
	"fmt"
	"slices"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

// commandFlags puts the undo commands and the command timeout of the flags into the factors of
// file, and replaces its hooks by those of the flags.
func (f *runFlags) commandFlags(file *config.File, given func(string) bool, bad *faults) {
	if len(f.before)+len(f.after) > 0 {
		file.Hooks = nil
	}
	var err error
	for _, text := range f.before {
		file.Hooks, err = config.Hook(file.Hooks, false, text)
		bad.add("before", err)
	}
	for _, text := range f.after {
		file.Hooks, err = config.Hook(file.Hooks, true, text)
		bad.add("after", err)
	}
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
	for i := range file.Hooks {
		file.Hooks[i].Command.Limit = limit
	}
}

// commandsOf returns the commands of settings and hooks, each once, and the ends that run them.
func commandsOf(settings []model.Setting, hooks []model.Assignment) (commands []string, ends []model.Host) {
	all := slices.Clone(hooks)
	for _, s := range settings {
		all = append(all, s.Assignments...)
	}
	for _, a := range all {
		if !a.IsCommand() {
			continue
		}
		ends = lists.Once(ends, a.Host)
		text := cmp.Or(a.Command.Run, a.Command.Undo) // a hook may have only one
		commands = lists.Once(commands, text)
	}
	return commands, ends
}

// mayRun refuses the commands of a plan that another person may have written.
func (f *runFlags) mayRun(where string, commands []string) error {
	if f.allowExec || len(commands) == 0 {
		return nil
	}
	return fault.WithHint(fault.Usagef("%s wants to run a command: %s", where, plain.Line(commands[0])), "if that is what you want, add --allow-exec")
}
