package config

import (
	"cmp"
	"maps"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/traffic/bulk"
)

// Flag is a command-line flag for the value at Path in a plan file.
type Flag struct {
	Name  string
	Path  string   // "settle", "flow.duration"
	Texts []string // as a person wrote it; several form a list
}

// exclusive maps each path to the one that a flag for it replaces.
var exclusive = map[string]string{"flow.bytes": "flow.duration", "flow.duration": "flow.bytes", "blocks": "max_blocks", "max_blocks": "blocks", "bind": "bind_dev"}

// Over returns f with the values of flags, parsed as in a plan file. The error is of type Errors,
// and names the flags.
func (f File) Over(flags []Flag, check KnobChecker) (File, error) {
	r := &reader{check: check, f: f}
	r.at, r.flags = map[string]position{}, map[string]string{}
	maps.Copy(r.at, f.at)
	maps.Copy(r.flags, f.flags)
	given := map[string]bool{}
	for _, flag := range flags {
		given[flag.Path] = true
	}
	for path, other := range exclusive {
		if given[path] && !given[other] {
			delete(r.at, other)
			r.forget(other)
		}
	}
	r.f.Flow.Engine = cmp.Or(f.Flow.Engine, bulk.Name)
	fields := map[string]func(ast.Node, string){}
	for _, one := range r.fields() {
		fields[one.key] = one.read
	}
	for _, one := range r.flowFields() {
		fields[join("flow", one.key)] = one.read
	}
	for _, flag := range flags {
		r.at[flag.Path], r.flags[flag.Path] = position{}, "--"+flag.Name
		var n ast.Node = &ast.StringNode{Value: flag.Texts[0]}
		if len(flag.Texts) > 1 {
			list := &ast.SequenceNode{}
			for _, text := range flag.Texts {
				list.Values = append(list.Values, &ast.StringNode{Value: text})
			}
			n = list
		}
		fields[flag.Path](n, flag.Path)
	}
	r.own()
	r.f.at, r.f.flags = r.at, r.flags
	r.validateFlow(r.f)
	r.validateEngine(r.f)
	return r.f, r.problems.sorted()
}

// forget removes the file's value at a path of exclusive.
func (r *reader) forget(path string) {
	switch path {
	case "flow.bytes":
		r.f.Flow.Bytes = 0
	case "flow.duration":
		r.f.Flow.Duration, r.f.Flow.Omit = 0, 0
		delete(r.at, "flow.omit")
	case "bind_dev":
		r.f.Path.Device = ""
	}
}
