package origin

import (
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits of a text of YAML, since its parser's time grows with the square of
// the length and of the nesting.
const (
	maxYAML   = 64 << 10
	maxNested = 32
)

// value is a node of a text of YAML: a map, or a single value. Lists, anchors
// and what stands for them are neither.
type value struct {
	line int    // 1…
	text string // of a single value
	keys []pair // of a map
}

type pair struct {
	key   string
	line  int
	value value
}

// parseYAML returns the map of the first document, an empty one where the text
// is not understood.
func parseYAML(b []byte) value {
	if len(b) > maxYAML || !utf8.Valid(b) || tooDeep(b) {
		return value{}
	}
	file, err := parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return value{}
	}
	for _, doc := range file.Docs {
		if v := valueOf(doc.Body, 0); len(v.keys) > 0 {
			return v
		}
	}
	return value{}
}

// tooDeep reports whether brackets or indentation nest too far.
func tooDeep(b []byte) bool {
	depth, indent, begin := 0, 0, true
	for _, c := range b {
		switch {
		case c == '\n':
			indent, begin = 0, true
			continue
		case begin && (c == ' ' || c == '-' || c == '?' || c == ':'):
			indent++
		case c == '[' || c == '{':
			depth++
			begin = false
		case (c == ']' || c == '}') && depth > 0:
			depth--
			begin = false
		default:
			begin = false
		}
		if depth > maxNested || indent > 8*maxNested {
			return true
		}
	}
	return false
}

func valueOf(n ast.Node, depth int) value {
	if n == nil || depth > maxNested {
		return value{}
	}
	var v value
	if t := n.GetToken(); t != nil && t.Position != nil {
		v.line = t.Position.Line
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, one := range n.Values {
			v.add(one, depth)
		}
	case *ast.MappingValueNode:
		v.add(n, depth)
	case *ast.StringNode:
		v.text = n.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		v.text = n.GetToken().Value
	}
	return v
}

func (v *value) add(n *ast.MappingValueNode, depth int) {
	if n == nil || n.Key == nil {
		return
	}
	t := n.Key.GetToken()
	if t == nil || t.Position == nil {
		return
	}
	v.keys = append(v.keys, pair{t.Value, t.Position.Line, valueOf(n.Value, depth+1)})
}

// get returns the last value of a key; ok is false where there is none.
func (v value) get(key string) (p pair, ok bool) {
	for _, one := range v.keys {
		if one.key == key {
			p, ok = one, true
		}
	}
	return p, ok
}

// at returns the value at the end of a path of keys, an empty one where there
// is none.
func (v value) at(path ...string) value {
	for _, key := range path {
		p, _ := v.get(key)
		v = p.value
	}
	return v
}
