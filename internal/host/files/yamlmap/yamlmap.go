// Package yamlmap reads YAML texts as maps of maps, with the line of each key.
package yamlmap

import (
	"bytes"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"linerate/internal/core/yamlshape"
)

// Limits of a text, below those of yamlshape: these files are read each time a host is read.
const (
	maxText   = 32 << 10 // bytes
	maxLines  = 2000
	maxNested = 32 // maps in maps
)

// Value is a node: a map, or a single value. Lists, anchors and aliases are neither. The zero
// value is a map without keys.
type Value struct {
	Text string // of a single value
	Keys []Pair // of a map, in order
}

// Pair is a key with its value.
type Pair struct {
	Key   string
	Line  int // of the key, 1…
	Value Value
}

// Parse returns the map of the first document, or an empty one if it cannot parse the text.
func Parse(b []byte) Value {
	if len(b) > maxText || bytes.Count(b, []byte("\n")) > maxLines || yamlshape.Check(b) != nil {
		return Value{}
	}
	file, err := parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return Value{}
	}
	for _, doc := range file.Docs {
		if v := valueOf(doc.Body, 0); len(v.Keys) > 0 {
			return v
		}
	}
	return Value{}
}

func valueOf(n ast.Node, depth int) Value {
	if n == nil || depth > maxNested {
		return Value{}
	}
	var v Value
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, one := range n.Values {
			v.add(one, depth)
		}
	case *ast.MappingValueNode:
		v.add(n, depth)
	case *ast.StringNode:
		v.Text = n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		v.Text = n.GetToken().Value
	}
	return v
}

func (v *Value) add(n *ast.MappingValueNode, depth int) {
	if n == nil || n.Key == nil {
		return
	}
	t := n.Key.GetToken()
	if t == nil || t.Position == nil {
		return
	}
	v.Keys = append(v.Keys, Pair{t.Value, t.Position.Line, valueOf(n.Value, depth+1)})
}

// Get returns the last value of a key; ok is false if there is none.
func (v Value) Get(key string) (p Pair, ok bool) {
	for _, one := range v.Keys {
		if one.Key == key {
			p, ok = one, true
		}
	}
	return p, ok
}

// At returns the value at the end of a path of keys, or an empty one.
func (v Value) At(path ...string) Value {
	for _, key := range path {
		p, _ := v.Get(key)
		v = p.Value
	}
	return v
}
