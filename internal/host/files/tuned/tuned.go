// Package tuned reads the active TuneD profile of a machine, with all that it includes:
// tuned.conf(5) and tuned-profiles(7).
package tuned

import (
	"path"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/tree"
)

// Profile is the active profile of TuneD.
type Profile struct {
	Units       []*Unit
	variables   map[string]string
	Reapplies   bool // TuneD applies the files of sysctl.d in /run and /etc after the profile
	SetsSysctls bool
}

// Unit is a section, merged from all profiles that have it.
type Unit struct {
	Name    string
	Options map[string]model.FileLine
}

// Kind returns the plugin of a unit.
func (u Unit) Kind() string {
	if t := u.Options["type"].Text; t != "" {
		return t
	}
	return u.Name
}

// Disabled reports whether the profile disables a unit.
func (u Unit) Disabled() bool {
	l, ok := u.Options["enabled"]
	return ok && command.Switch(l.Text) != "1"
}

// maxProfiles bounds the profiles that a profile includes.
const maxProfiles = 64

// Read reads /etc/tuned/active_profile and the profiles that it names.
func Read(t tree.Tree) Profile {
	p := Profile{variables: make(map[string]string), Reapplies: true} // the default
	if l, ok := t.Assignments("etc/tuned/tuned-main.conf")["reapply_sysctl"]; ok {
		p.Reapplies = command.Switch(l.Text) == "1"
	}
	read := make(map[string]bool)
	for name := range strings.FieldsSeq(t.Word("etc/tuned/active_profile")) {
		p.include(t, name, read)
	}
	for _, u := range p.Units {
		p.SetsSysctls = p.SetsSysctls || u.Kind() == "sysctl" && !u.Disabled()
	}
	return p
}

// include merges a profile into p, after those that it includes itself. A profile may include
// the one with its own name in a folder of lower precedence.
func (p *Profile) include(t tree.Tree, name string, read map[string]bool) {
	name = path.Base(strings.TrimPrefix(name, "-"))
	file := ""
	for _, dir := range []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"} {
		if f := path.Join(dir, name, "tuned.conf"); !read[f] && t.Exists(f) {
			file = f
			break
		}
	}
	if file == "" || len(read) >= maxProfiles {
		return
	}
	read[file] = true
	all := entries(t, file)
	for _, e := range all { // variables first, since the names of included profiles may use them
		if e.Section == "variables" {
			p.variables[e.Key] = e.Text
		}
	}
	for _, e := range all {
		if e.Section == "main" && e.Key == "include" {
			for _, one := range strings.FieldsFunc(p.Expand(e.Text), func(r rune) bool { return r == ',' || r == ';' || r == ' ' }) {
				p.include(t, one, read)
			}
		}
	}
	for _, e := range all {
		if e.Section == "variables" { // the including profile wins
			p.variables[e.Key] = e.Text
		} else if e.Section != "main" {
			p.merge(e, file)
		}
	}
}

// merge adds an option to the unit of its section. drop= and replace= remove what included
// profiles set.
func (p *Profile) merge(e tree.Entry, file string) {
	i := slices.IndexFunc(p.Units, func(u *Unit) bool { return u.Name == e.Section })
	if i < 0 {
		p.Units = append(p.Units, &Unit{e.Section, make(map[string]model.FileLine)})
		i = len(p.Units) - 1
	}
	u := p.Units[i]
	included := func(l model.FileLine) bool { return l.File != "/"+file }
	switch e.Key {
	case "replace":
		for key, l := range u.Options {
			if command.Switch(e.Text) == "1" && included(l) {
				delete(u.Options, key)
			}
		}
	case "drop":
		for key := range strings.FieldsFuncSeq(e.Text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if l, ok := u.Options[key]; ok && included(l) {
				delete(u.Options, key)
			}
		}
	default:
		u.Options[e.Key] = e.FileLine
	}
}

// entries parses a profile: sections with KEY=VALUE, and comments that start with a number
// sign after a blank.
func entries(t tree.Tree, name string) []tree.Entry {
	var all []tree.Entry
	section := ""
	for _, l := range t.Lines(name, "#;") {
		text, _, _ := strings.Cut(l.Text, " #")
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "[") {
			section = strings.Trim(text, "[]")
			continue
		}
		if key, value, ok := strings.Cut(text, "="); ok {
			l.Text = strings.Trim(strings.TrimSpace(value), `"'`)
			all = append(all, tree.Entry{Section: section, Key: strings.TrimSpace(key), FileLine: l})
		}
	}
	return all
}

// maxExpanded bounds expanded texts, in bytes.
const maxExpanded = 1 << 12

// Expand replaces variables. Functions stay: their results are not known here.
func (p *Profile) Expand(text string) string {
	for range maxProfiles { // variables may name variables
		before := text
		for name, value := range p.variables {
			if len(text) < maxExpanded && len(value) < maxExpanded {
				text = strings.ReplaceAll(text, "${"+name+"}", value)
			}
		}
		if text == before {
			break
		}
	}
	return text
}

// Active reports whether TuneD runs, or starts at boot.
func Active(t tree.Tree) bool {
	return t.Exists("run/tuned/tuned.pid") || t.Exists("etc/systemd/system/multi-user.target.wants/tuned.service")
}
