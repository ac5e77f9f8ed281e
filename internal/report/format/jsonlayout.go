package format

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"linerate/internal/core/plain"
)

// width is the most characters of a line with more than one value.
const width = 110

// From the third level on, members of up to short characters share lines.
const (
	sharing = 6 // blanks before the third level
	short   = 48
)

// printer formats the output of json.Marshal for people: two blanks per level, short values in
// one line, and from the third level on, where the lists of hosts, runs and rows are, several
// short members per line.
type printer struct {
	out   *bufio.Writer
	brief bool  // print only the value of a fact, not its source
	err   error // from a value that cannot be encoded, of which Render found none
}

// parse returns the root of a text from json.Marshal.
func (p *printer) parse(text []byte) *node {
	read := parser{text: text}
	root := read.value()
	if p.brief {
		root.forgetSources()
	}
	return root
}

// document prints root, with a line for each of its members.
func (p *printer) document(root *node) {
	p.print(root, 0, width)
	_ = p.out.WriteByte('\n')
}

// node is a value of a document. Nodes with members are objects and arrays.
type node struct {
	open    byte   // '{' or '[', 0 for other values
	text    []byte // of other values
	members []member
	more    iter.Seq[any] // elements made one at a time; at least one, if it is not nil
}

type member struct {
	key []byte // with its quotes; nil in arrays
	of  *node
}

// member returns the value of a key that the object must have.
func (n *node) member(key string) *node {
	return n.members[slices.IndexFunc(n.members, func(m member) bool { return string(m.key) == `"`+key+`"` })].of
}

// all returns the members of n.
func (p *printer) all(n *node) iter.Seq2[int, member] {
	if n.more == nil {
		return slices.All(n.members)
	}
	return func(yield func(int, member) bool) {
		i := 0
		for v := range n.more {
			text, err := json.Marshal(v)
			if err != nil {
				p.err = cmp.Or(p.err, fmt.Errorf("write %s: %w", SessionSchema, err))
			}
			if _, full := p.out.Write(nil); p.err != nil || full != nil || !yield(i, member{of: p.parse(text)}) {
				return
			}
			i++
		}
	}
}

// parser parses the output of json.Marshal: it trusts its input.
type parser struct {
	text []byte
	at   int
}

func (p *parser) value() *node {
	switch c := p.text[p.at]; c {
	case '{', '[':
		n := &node{open: c}
		for p.at++; p.text[p.at] != c+2; { // ']' and '}' are the opening character plus two
			if p.text[p.at] == ',' {
				p.at++
			}
			var m member
			if c == '{' {
				m.key = p.scalar()
				p.at++ // the colon
			}
			m.of = p.value()
			n.members = append(n.members, m)
		}
		p.at++
		return n
	default:
		return &node{text: p.scalar()}
	}
}

// scalar parses a string, a number or a word.
func (p *parser) scalar() []byte {
	from := p.at
	if p.text[p.at] == '"' {
		for p.at++; p.text[p.at] != '"'; p.at++ {
			if p.text[p.at] == '\\' {
				p.at++
			}
		}
		p.at++
		return p.text[from:p.at]
	}
	for p.at < len(p.text) && !bytes.ContainsRune([]byte(",]}"), rune(p.text[p.at])) {
		p.at++
	}
	return p.text[from:p.at]
}

// forgetSources removes "source" from every {"value": …, "source": …} in n.
func (n *node) forgetSources() {
	if len(n.members) == 2 && string(n.members[0].key) == `"value"` && string(n.members[1].key) == `"source"` {
		n.members = n.members[:1]
	}
	for _, m := range n.members {
		m.of.forgetSources()
	}
}

// length returns the bytes that n takes in one line.
func (n *node) length() int {
	switch {
	case n.open == 0:
		return len(n.text)
	case n.more != nil:
		return width
	}
	sum := 2
	for i, m := range n.members {
		if i > 0 {
			sum += 2
		}
		sum += m.length()
	}
	return sum
}

func (m member) length() int {
	if m.key == nil {
		return m.of.length()
	}
	return len(m.key) + 2 + m.of.length()
}

// print writes n at the given column of a line with the given indentation.
func (p *printer) print(n *node, indent, column int) {
	if n.open == 0 {
		p.text(n.text)
		return
	}
	lines := (len(n.members) > 0 || n.more != nil) && column+n.length() > width
	_ = p.out.WriteByte(n.open)
	at, joins := 0, false // the end of the line so far, and whether another member may join it
	for i, m := range p.all(n) {
		small := indent >= sharing && m.length() <= short
		switch {
		case i > 0 && (!lines || joins && small && at+2+m.length() < width):
			p.text([]byte(", "))
			at += 2
		case lines:
			if i > 0 {
				_ = p.out.WriteByte(',')
			}
			p.newline(indent + 2)
			at = indent + 2
		}
		joins = small
		if m.key != nil {
			p.text(m.key)
			p.text([]byte(": "))
			at += len(m.key) + 2
		}
		if lines {
			p.print(m.of, indent+2, at)
		} else {
			p.print(m.of, indent, 0) // all of n fits in this line
		}
		at += m.of.length()
	}
	if lines {
		p.newline(indent)
	}
	_ = p.out.WriteByte(n.open + 2)
}

// text writes a part of the document. Flush returns the errors of all writes.
func (p *printer) text(part []byte) { _, _ = p.out.Write(plain.JSON(part)) }

func (p *printer) newline(indent int) { _, _ = p.out.WriteString("\n" + strings.Repeat(" ", indent)) }
