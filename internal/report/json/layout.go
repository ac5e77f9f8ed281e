package json

import "bytes"

// width is how many characters a line of a document may have that holds more than
// one value.
const width = 110

// Within the third level, members of up to short characters share lines.
const (
	sharing = 6 // blanks before it
	short   = 48
)

// layout prints the text of one JSON document, as json.Marshal writes it, for
// people: two blanks a level, what fits in a line in one line, and from the third
// level on, where the lists of hosts, runs and rows are, several short members in a
// line. Where brief is set, of a fact only its value is printed and not who told it.
func layout(text []byte, brief bool) []byte {
	p := parser{text: text}
	root := p.value()
	if brief {
		root.forgetSources()
	}
	var out bytes.Buffer
	root.print(&out, 0, width) // a line for each of its members
	out.WriteByte('\n')
	return out.Bytes()
}

// node is a value of a document. Those with members are objects and arrays.
type node struct {
	open    byte   // '{' or '[', 0 for all else
	text    []byte // of all else
	members []member
}

type member struct {
	key []byte // with its quotes; nil in arrays
	of  *node
}

// parser reads what json.Marshal wrote: it trusts its input.
type parser struct {
	text []byte
	at   int
}

func (p *parser) value() *node {
	switch c := p.text[p.at]; c {
	case '{', '[':
		n := &node{open: c}
		for p.at++; p.text[p.at] != c+2; { // ']' and '}' are two behind what opens
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

// scalar reads a string, a number or a word.
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

// forgetSources takes "source" out of every {"value": …, "source": …} in n.
func (n *node) forgetSources() {
	if len(n.members) == 2 && string(n.members[0].key) == `"value"` && string(n.members[1].key) == `"source"` {
		n.members = n.members[:1]
	}
	for _, m := range n.members {
		m.of.forgetSources()
	}
}

// length is how many bytes n takes in one line.
func (n *node) length() int {
	if n.open == 0 {
		return len(n.text)
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

// print writes n, which begins in that column of a line that is indented so far.
func (n *node) print(out *bytes.Buffer, indent, column int) {
	if n.open == 0 {
		out.Write(n.text)
		return
	}
	lines := len(n.members) > 0 && column+n.length() > width
	out.WriteByte(n.open)
	at, joins := 0, false // where the line ends, and whether another member may join it
	for i, m := range n.members {
		small := indent >= sharing && m.length() <= short
		switch {
		case i > 0 && (!lines || joins && small && at+2+m.length() < width):
			out.WriteString(", ")
			at += 2
		case lines:
			if i > 0 {
				out.WriteByte(',')
			}
			newline(out, indent+2)
			at = indent + 2
		}
		joins = small
		if m.key != nil {
			out.Write(m.key)
			out.WriteString(": ")
			at += len(m.key) + 2
		}
		if lines {
			m.of.print(out, indent+2, at)
		} else {
			m.of.print(out, indent, 0) // all of n fits in this line
		}
		at += m.of.length()
	}
	if lines {
		newline(out, indent)
	}
	out.WriteByte(n.open + 2)
}

func newline(out *bytes.Buffer, indent int) {
	out.WriteByte('\n')
	for range indent {
		out.WriteByte(' ')
	}
}
