package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/model"
)

// noCommand does nothing, in the shell of every system.
const noCommand = "exit 0"

// Hook adds the command of a --before or --after flag to hooks: "far:sync" for the far
// host, "near:sync" or "sync" for the near one. The error is of type Errors.
func Hook(hooks []model.Assignment, after bool, text string) ([]model.Assignment, error) {
	r := &reader{}
	host := model.Near
	for _, h := range []model.Host{model.Near, model.Far} {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(text), string(h)+":"); ok {
			host, text = h, rest
			break
		}
	}
	h := model.Assignment{Host: host, Knob: model.HookKnob, Value: model.On}
	if after {
		h.Command.Undo = strings.TrimSpace(text)
	} else {
		h.Command.Run = strings.TrimSpace(text)
	}
	r.checkCommand("", "command", text)
	hooks = r.addHook("", hooks, h)
	return hooks, r.problems.sorted()
}

// hooks reads the list of hooks.
func (r *reader) hooks(n ast.Node, path string) {
	for i, item := range r.list(n, path) {
		at := index(path, i)
		host := string(model.Near)
		var c model.Command
		before := len(r.problems)
		r.object(item, at, []field{
			{"host", value(r, &host, parseLine)},
			{"before", value(r, &c.Run, parseCommand)},
			{"after", value(r, &c.Undo, parseCommand)},
			{"limit", value(r, &c.Limit, parsePositiveDuration)},
		})
		switch {
		case len(r.problems) > before:
			continue
		case host != string(model.Near) && host != string(model.Far):
			r.fault(join(at, "host"), "write near or far", "unknown host %s", quote(host))
		case c.Run == "" && c.Undo == "":
			r.fault(at, "add before: or after:", "the hook has no command")
		}
		r.checkLimit(join(at, "limit"), c.Limit)
		for _, text := range []string{c.Run, c.Undo} {
			if text != "" {
				r.checkCommand(at, "command", text)
			}
		}
		r.f.Hooks = r.addHook(at, r.f.Hooks, model.Assignment{Host: model.Host(host), Knob: model.HookKnob, Value: model.On, Command: c})
	}
}

// addHook merges a host's commands before and after: it has one of each.
func (r *reader) addHook(path string, hooks []model.Assignment, h model.Assignment) []model.Assignment {
	i := slices.IndexFunc(hooks, func(o model.Assignment) bool { return o.Host == h.Host })
	if i < 0 {
		h.Command.Limit = cmp.Or(h.Command.Limit, DefaultCommandTime)
		return append(hooks, h)
	}
	c := &hooks[i].Command
	for when, two := range map[string][2]string{"before": {c.Run, h.Command.Run}, "after": {c.Undo, h.Command.Undo}} {
		if two[0] != "" && two[1] != "" {
			r.fault(path, "join them with &&, or write a script", "the %s host has two commands %s its runs", h.Host, when)
		}
	}
	c.Run, c.Undo, c.Limit = cmp.Or(c.Run, h.Command.Run), cmp.Or(c.Undo, h.Command.Undo), cmp.Or(h.Command.Limit, c.Limit)
	return hooks
}

// hooked returns the hooks of f with a command on either side.
func (f File) hooked() []model.Assignment {
	out := slices.Clone(f.Hooks)
	for i := range out {
		c := &out[i].Command
		c.Run, c.Undo = cmp.Or(c.Run, noCommand), cmp.Or(c.Undo, noCommand)
	}
	return out
}
