package config

import (
	"strings"
	"time"
	"unicode"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// DefaultCommandTime is the default timeout of a command.
const DefaultCommandTime = 30 * time.Second

// maxCommand is the longest command, in bytes: it is sent as one value.
const maxCommand = 4 << 10

// commandName splits "far.cmd:shaper" into its name and host ("" for both); command reports
// whether knob is a command at all.
func commandName(knob string) (name string, host model.Host, command bool) {
	knob = strings.TrimSpace(knob)
	if end, rest, dotted := strings.Cut(knob, "."); dotted && strings.HasPrefix(rest, model.CommandPrefix) {
		h, known := model.ParseHost(end)
		if !known {
			h = model.Host(end) // the caller reports it as unknown
		}
		return strings.TrimPrefix(rest, model.CommandPrefix), h, true
	}
	name, command = strings.CutPrefix(knob, model.CommandPrefix)
	return name, "", command
}

// command returns the factor of a command, whose undo may follow later.
func (r *reader) command(path, name string, host model.Host, c model.Command) Factor {
	if host != "" && host != model.Near && host != model.Far {
		r.fault(path, "write near. or far. before the command, or nothing for both", "unknown host %s", quote(string(host)))
		host = ""
	}
	if !isCommandName(name) {
		r.fault(path, "letters, digits, - and _, at most 40 of them", "%s is no name for a command", quote(name))
	}
	r.checkCommand(path, "command", c.Run)
	if c.Limit == 0 {
		c.Limit = DefaultCommandTime
	}
	r.checkLimit(path, c.Limit)
	return Factor{
		Host: host, Knob: model.KnobID(model.CommandPrefix + name), Command: c,
		Levels: []Level{{Text: model.Off, Value: model.Off}, {Text: model.On, Value: model.On}},
	}
}

// commandFactor parses {knob: far.cmd:shaper, run: …, undo: …, limit: 10s}.
func (r *reader) commandFactor(path, name string, end model.Host, host string, c model.Command, levels []string) Factor {
	if host != "" && end != "" && string(end) != host {
		r.fault(path, "leave one of them out", "host %s contradicts %s", host, quote(string(end)+"."+model.CommandPrefix+name))
	}
	if end == "" {
		end = model.Host(host)
	}
	if len(levels) > 0 {
		r.fault(join(path, "levels"), "leave them out", "a command is off or on, and has no other levels")
	}
	f := r.command(path, name, end, c)
	if c.Undo != "" { // otherwise Validate reports it
		r.checkCommand(path, "undo command", c.Undo)
	}
	return f
}

// parseCommand returns the text unchanged: the caller checks it.
func parseCommand(text string) (string, error) { return strings.TrimSpace(text), nil }

func (r *reader) checkLimit(path string, limit time.Duration) {
	if limit > model.MaxCommandTime {
		r.fault(path, "at most "+units.FormatDuration(model.MaxCommandTime), "a limit of %s is too long for a command", units.FormatDuration(limit))
	}
}

// checkCommand refuses commands that a shell cannot take or a person cannot read.
func (r *reader) checkCommand(path, what, text string) {
	switch {
	case strings.TrimSpace(text) == "":
		r.fault(path, "give the command as one line for the shell of that host", "there is no %s", what)
	case len(text) > maxCommand:
		r.fault(path, "write it into a file on that host, and run that", "the %s has more than %d bytes", what, maxCommand)
	case plain.Line(text) != text || strings.ContainsFunc(text, unicode.IsControl):
		r.fault(path, "one line of plain text", "the %s has characters that are not shown", what)
	}
}

// isCommandName reports whether a name can appear unchanged in reports and flags.
func isCommandName(name string) bool {
	return name != "" && len(name) <= 40 && !strings.ContainsFunc(name, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-' && c != '_'
	})
}

// Undo sets the undo command of the command named in text, "shaper=tc qdisc del …" with or
// without "cmd:". The error is of type Errors.
func Undo(factors []Factor, text string) error {
	r := &reader{}
	knob, undo, ok := strings.Cut(text, "=")
	name, host, command := commandName(knob)
	if !command {
		name = strings.TrimSpace(knob)
	}
	if !ok {
		r.fault("", "write it like shaper='tc qdisc del dev eth0 root'", "%s has no command", quote(text))
		return r.problems
	}
	r.checkCommand("", "undo command", undo)
	found := false
	for i, f := range factors {
		if string(f.Knob) != model.CommandPrefix+name || host != "" && host != f.Host {
			continue
		}
		if f.Command.Undo != "" {
			r.fault("", "leave one of them out", "%s has an undo command already", f)
		}
		factors[i].Command.Undo, found = undo, true
	}
	if !found {
		r.fault("", "name a command of --factor cmd:NAME=COMMAND", "there is no command %s to undo", quote(name))
	}
	return r.problems.sorted()
}

// commands reports every command without an undo.
func (r *report) commands(f File) {
	for i, factor := range f.Factors {
		if factor.Command.Run != "" && factor.Command.Undo == "" {
			name := strings.TrimPrefix(string(factor.Knob), model.CommandPrefix)
			r.fault(index("factors", i), "add --undo "+name+"='COMMAND', or undo: in the plan file; it has to succeed also where nothing is left to undo",
				"%s has no command that takes it back", factor)
		}
	}
}
