package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"linerate/internal/core/lists"
	"linerate/internal/core/yamlshape"
)

// document parses data and returns the node of its only document, nil if there is none. Mistakes
// are added to the report.
func (r *reader) document(data []byte) ast.Node {
	if f := yamlshape.Check(data); f != nil {
		r.faultAt(position{f.Line, f.Column}, "", "", "%s", f.Reason)
		return nil
	}
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode:
			continue
		}
		if body != nil {
			r.faultAt(positionOf(doc.Body), "", "put it into a file of its own", "a second document begins here")
			break
		}
		body = doc.Body
	}
	if body == nil && len(r.problems) == 0 {
		r.faultAt(position{1, 1}, "", "start with far: and factors:", "the file is empty")
	}
	return body
}

// syntax adds an error of the YAML parser.
func (r *reader) syntax(err error) {
	at := position{1, 1}
	message := err.Error()
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			at = position{t.Position.Line, t.Position.Column}
		}
	}
	line, _, _ := strings.Cut(message, "\n")
	r.faultAt(at, "", "", "not YAML: %s", line)
}

// positionOf returns where n begins.
func positionOf(n ast.Node) position {
	t := n.GetToken()
	switch n := n.(type) {
	case *ast.MappingNode: // its own token is the first colon
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return positionOf(n.Values[0])
		}
	case *ast.MappingValueNode:
		t = n.Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// kind returns the name of n's type, for messages.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "a YAML anchor, alias or tag, which plan files do not have"
	}
	return "a single value"
}

// entry is one entry of a map.
type entry struct {
	key   string
	at    position
	value ast.Node
}

// entries returns the entries of the map n, without repeated keys.
func (r *reader) entries(n ast.Node, path string) []entry {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		r.fault(path, "write keys and values", "is %s, not a map", kind(n))
		return nil
	}
	var out []entry
	for _, v := range values {
		at := positionOf(v)
		key, ok := scalarText(v.Key)
		if !ok || key == "" {
			r.faultAt(at, path, "", "a key is %s, not a word", kind(v.Key))
			continue
		}
		if slices.ContainsFunc(out, func(e entry) bool { return e.key == key }) {
			r.faultAt(at, join(path, key), "leave one of them out", "is given twice")
			continue
		}
		out = append(out, entry{key, at, v.Value})
	}
	return out
}

// field is a key that a map may have, with the reader of its value.
type field struct {
	key  string
	read func(n ast.Node, path string)
}

// object reads the map n, which may have the given fields.
func (r *reader) object(n ast.Node, path string, fields []field) {
	entries := r.entries(n, path)
	for _, e := range entries {
		at := join(path, e.key)
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key })
		if i < 0 {
			known := lists.Each(fields, func(f field) string { return f.key })
			r.faultAt(e.at, path, didYouMean(e.key, known), "unknown key %s", quote(e.key))
			continue
		}
		if r.place(at, e) {
			fields[i].read(e.value, at)
		}
	}
}

// place records the position of e's value. If there is no value, it reports a problem and
// returns false.
func (r *reader) place(path string, e entry) bool {
	if _, ok := e.value.(*ast.NullNode); ok || e.value == nil {
		r.faultAt(e.at, path, "give it one or leave it out", "has no value")
		return false
	}
	r.at[path] = positionOf(e.value)
	return true
}

// list returns the items of the list n, at least one, and records their positions.
func (r *reader) list(n ast.Node, path string) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		r.fault(path, "write [ ] around it, or a dash before each item", "is %s, not a list", kind(n))
		return nil
	case len(s.Values) == 0:
		r.fault(path, "", "is an empty list")
		return nil
	}
	for i, v := range s.Values {
		r.at[index(path, i)] = positionOf(v)
	}
	return s.Values
}

// each reads one value, or each value of a list.
func (r *reader) each(n ast.Node, path string, read func(ast.Node, string)) {
	if _, ok := n.(*ast.SequenceNode); !ok {
		read(n, path)
		return
	}
	for i, item := range r.list(n, path) {
		read(item, index(path, i))
	}
}

// texts reads the single values of the map n at the paths that name returns.
func (r *reader) texts(n ast.Node, name func(key string) string, path string, read func(e entry, path, text string)) {
	for _, e := range r.entries(n, path) {
		at := name(e.key)
		if !r.place(at, e) {
			continue
		}
		if text, ok := r.text(e.value, at); ok {
			read(e, at, text)
		}
	}
}

// text returns the single value n as written, without quotes.
func (r *reader) text(n ast.Node, path string) (string, bool) {
	s, ok := scalarText(n)
	if !ok {
		r.fault(path, "", "is %s, not a single value", kind(n))
	}
	return s, ok
}

func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
