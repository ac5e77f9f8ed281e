package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// KnobChecker knows the knobs that a plan may set.
type KnobChecker interface {
	// Check returns the canonical text of a value as a person writes it, or an error that says
	// what would be right.
	Check(id model.KnobID, value string) (canonical string, err error)
	// Known returns the ids of all knobs, of hosts and of the flow.
	Known() []model.KnobID
	// OfFlow reports whether a knob is of the flow, or an engine's own.
	OfFlow(id model.KnobID) bool
}

// ParseFactor parses a --factor flag, for example "far.tcp.recv_buffer_max=64KiB,256KiB,1MiB".
// The error is of type Errors.
func ParseFactor(s string, check KnobChecker) (Factor, error) {
	r := &reader{check: check}
	knob, levels, ok := strings.Cut(s, "=")
	if name, host, command := commandName(knob); command && ok {
		f := r.command("", name, host, model.Command{Run: levels})
		return f, r.problems.sorted()
	}
	if !ok {
		r.fault("", "write it like far.tcp.recv_buffer_max=64KiB,1MiB", "%s has no levels", quote(s))
		return Factor{}, r.problems
	}
	f := Factor{}
	f.Host, f.Knob, ok = r.resolve("", "", strings.TrimSpace(knob))
	f.OfFlow = ok && check.OfFlow(f.Knob)
	texts := strings.Split(levels, ",")
	if f.Knob == model.FarEnd {
		texts = splitEnds(texts)
	}
	for _, text := range texts {
		f.Levels = append(f.Levels, r.level("", f.Knob, strings.TrimSpace(text), ok))
	}
	r.ends("", &f)
	r.duplicateLevels("", f)
	return f, r.problems.sorted()
}

// ParseNamed parses an experiment's --set flag: a name with assignments, such as
// "jumbo:link.mtu=9000,window=1MiB", or only a name, which leaves the hosts unchanged. The error
// is of type Errors.
func ParseNamed(s string, check KnobChecker) (model.Setting, error) {
	r := &reader{check: check}
	name, all, several := strings.Cut(s, ":")
	out := model.Setting{Name: strings.TrimSpace(name)}
	const hint = "write it like jumbo:link.mtu=9000,window=1MiB, or a name alone for the hosts as they are"
	if out.Name == "" || strings.ContainsRune(name, '=') {
		r.fault("", hint, "%s has no name", quote(s))
		return out, r.problems
	}
	var parts []string
	for part := range strings.SplitSeq(all, ",") {
		if n := len(parts); n > 0 && !strings.ContainsRune(part, '=') {
			parts[n-1] += "," + part // a value with a comma
			continue
		}
		parts = append(parts, part)
	}
	for _, part := range parts {
		knob, value, ok := strings.Cut(part, "=")
		if ok {
			out.Assignments = append(out.Assignments, r.assignment("", strings.TrimSpace(knob), strings.TrimSpace(value))...)
		} else if several {
			r.fault("", hint, "%s has no value", quote(part))
		}
	}
	return out, r.problems.sorted()
}

// factors reads the list of factors.
func (r *reader) factors(n ast.Node, path string) {
	for i, item := range r.list(n, path) {
		r.f.Factors = append(r.f.Factors, r.factor(item, index(path, i)))
	}
}

// factor reads {knob: far.x, levels: […]} or {knob: x, host: far, levels: […]}. Levels with
// mistakes keep their text, so that they are not reported as missing elsewhere.
func (r *reader) factor(n ast.Node, path string) Factor {
	var knob, host string
	var texts, paths []string
	var c model.Command
	var group bool
	var also []model.KnobID
	before := len(r.problems)
	r.object(n, path, []field{
		{"knob", value(r, &knob, parseLine)},
		{"host", value(r, &host, parseLine)},
		{"run", value(r, &c.Run, parseCommand)},
		{"undo", value(r, &c.Undo, parseCommand)},
		{"limit", value(r, &c.Limit, parsePositiveDuration)},
		{"group", value(r, &group, parseYes)},
		{"also", func(n ast.Node, path string) {
			for i, item := range r.list(n, path) {
				if text, ok := r.text(item, index(path, i)); ok {
					_, id, _ := r.resolve(index(path, i), "", text)
					also = append(also, id)
				}
			}
		}},
		{"levels", func(n ast.Node, path string) {
			for i, item := range r.list(n, path) {
				if text, ok := r.text(item, index(path, i)); ok {
					texts, paths = append(texts, text), append(paths, index(path, i))
				}
			}
		}},
	})
	if name, end, command := commandName(knob); command {
		if group {
			r.fault(join(path, "group"), "leave it out", "a command is run and taken back around every run, and held over no group of them")
		}
		return r.commandFactor(path, name, end, host, c, texts)
	}
	if c != (model.Command{}) {
		r.fault(path, "call it knob: far."+model.CommandPrefix+"NAME", "run, undo and limit are of commands")
	}
	f := Factor{Group: group}
	known := false
	switch {
	case knob != "":
		f.Host, f.Knob, known = r.resolve(join(path, "knob"), host, knob)
		f.OfFlow = known && r.check.OfFlow(f.Knob)
	case len(r.problems) == before: // otherwise the knob's own mistake, or a misspelled key, is reported
		r.fault(path, "add one, such as knob: tcp.recv_buffer_max", "the factor has no knob")
	}
	for i, text := range texts {
		f.Levels = append(f.Levels, r.level(paths[i], f.Knob, text, known))
		for _, id := range also {
			if v, _ := r.checkValue(paths[i], id, text); known && v != f.Levels[i].Value {
				r.fault(paths[i], "give them settings of their own", "%s of %s is another value of %s", quote(text), f.Knob, id)
			}
		}
	}
	f.Also = also
	r.ends(path, &f)
	if len(texts) == 0 && len(r.problems) == before {
		r.fault(path, "add some, such as levels: [64KiB, 1MiB]", "the factor has no levels")
	}
	return f
}

// level checks one value of a factor if its knob is known.
func (r *reader) level(path string, id model.KnobID, text string, known bool) Level {
	l := Level{Text: strings.TrimSpace(text)}
	if known {
		l.Value, _ = r.checkValue(path, id, text)
	}
	return l
}

// settings reads the list of named settings.
func (r *reader) settings(n ast.Node, path string) {
	for i, item := range r.list(n, path) {
		at := index(path, i)
		var s model.Setting
		before := len(r.problems)
		r.object(item, at, []field{
			{"name", value(r, &s.Name, parseLine)},
			{"set", func(n ast.Node, path string) { s.Assignments = r.set(n, path) }},
		})
		if s.Name == "" && len(r.problems) == before {
			r.fault(at, "add one, such as name: jumbo", "the setting has no name")
		}
		r.f.Named = append(r.f.Named, s)
	}
}

// set reads {near.link.mtu: 9000, window: 1MiB}.
func (r *reader) set(n ast.Node, path string) []model.Assignment {
	var out []model.Assignment
	r.texts(n, func(key string) string { return path + "[" + key + "]" }, path, func(e entry, at, text string) {
		for _, a := range r.assignment(at, e.key, text) {
			if slices.ContainsFunc(out, func(b model.Assignment) bool { return a.Host == b.Host && a.Knob == b.Knob }) {
				r.faultAt(e.at, at, "leave one of them out", "%s is already set", a.Host.Of(a.Knob))
				break
			}
			out = append(out, a)
		}
	})
	return out
}

// assignment checks one knob with one value.
func (r *reader) assignment(path, knob, text string) []model.Assignment {
	host, id, ok := r.resolve(path, "", knob)
	if !ok {
		return nil
	}
	if id == model.FarEnd {
		r.fault(path, "make it a factor: {knob: far, levels: [HOST, HOST]}", "far ends are no setting of a host")
		return nil
	}
	v, ok := r.checkValue(path, id, text)
	if !ok {
		return nil
	}
	return assign(host, id, v, r.check.OfFlow(id))
}

// checkValue returns the canonical text of a value.
func (r *reader) checkValue(path string, id model.KnobID, text string) (string, bool) {
	v, err := r.check.Check(id, text)
	if err != nil {
		r.badValue(path, err)
		return "", false
	}
	return v, true
}

// resolve splits "far.link.mtu" into host and knob, and reports whether they exist. host is the
// value of a separate host key, "" if there is none. It also returns an unknown knob, so that
// settings have the expected names in other messages.
func (r *reader) resolve(path, host, knob string) (model.Host, model.KnobID, bool) {
	h, named := model.ParseHost(host)
	if host != "" && !named {
		r.fault(path, "write near or far, or leave it out for both", "unknown host %s", quote(host))
		return "", "", false
	}
	id := model.KnobID(knob)
	prefix, rest, dotted := strings.Cut(knob, ".")
	end, isHost := model.ParseHost(prefix)
	known := r.check.Known()
	switch {
	case dotted && isHost && named && h != end:
		r.fault(path, "leave one of them out", "%s contradicts host %s", quote(knob), host)
		return "", "", false
	case dotted && isHost:
		h, id = end, model.KnobID(rest)
	case dotted && !slices.Contains(known, id) && slices.Contains(known, model.KnobID(rest)):
		r.fault(path, "write near. or far. before the knob, or nothing for both", "unknown host %s", quote(prefix))
		return "", "", false
	}
	if !slices.Contains(known, id) {
		r.unknownKnob(path, id, known)
		return h, id, false
	}
	if h != "" && r.check.OfFlow(id) {
		r.fault(path, "write "+string(id)+" without a host", "%s belongs to the flow, not to the %s host", id, h)
		return "", "", false
	}
	return h, id, true
}

// unknownKnob reports an unknown knob. The checker may know better than the spelling what was
// meant, for example from a native name.
func (r *reader) unknownKnob(path string, id model.KnobID, known []model.KnobID) {
	names := plain.Texts(known)
	if plain.Nearest(string(id), names) == "" {
		_, err := r.check.Check(id, "")
		if u, ok := errors.AsType[*knob.Unknown](err); ok && len(u.Meant) > 0 {
			r.fault(path, "", "%s", err)
			return
		}
	}
	r.fault(path, didYouMean(string(id), names), "unknown knob %s", quote(string(id)))
}
