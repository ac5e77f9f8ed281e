package kmsg

import (
	"bytes"
	"slices"
)

// remembered is how much of the end of a message buffer tells where the next
// reading goes on.
const remembered = 256

// msgbuf turns readings of the whole message buffer of a BSD kernel, which begins
// anywhere and ends with the newest line, into the lines that are new since the
// last one.
type msgbuf struct {
	tail  []byte   // of the last reading
	lines [][]byte // not handed out yet
}

// take looks at a reading. The first one only marks the end. Where the buffer went
// round so far that nothing of the last reading is left, all of it is new.
func (m *msgbuf) take(b []byte) {
	b = bytes.Trim(b, "\x00")
	b = b[:bytes.LastIndexByte(b, '\n')+1] // a line that is being written comes next time
	first := m.tail == nil
	at := 0
	if i := bytes.LastIndex(b, m.tail); !first && i >= 0 {
		at = i + len(m.tail)
	}
	m.tail = bytes.Clone(b[max(0, len(b)-remembered):])
	if m.tail == nil {
		m.tail = []byte{}
	}
	if first {
		return
	}
	for l := range bytes.Lines(b[at:]) {
		if l = bytes.TrimSpace(l); len(l) > 0 {
			m.lines = append(m.lines, record6(l))
		}
	}
}

// record6 writes a line of the buffer as /dev/kmsg of Linux has it. Lines of
// programs begin with "<118>" (facility x 8 + level, FreeBSD kern.msgbuf); those
// of the kernel with nothing.
func record6(l []byte) []byte {
	priority := []byte("6")
	if rest, found := bytes.CutPrefix(l, []byte("<")); found {
		if n, text, found := bytes.Cut(rest, []byte(">")); found && len(n) > 0 && len(n) <= 3 && len(bytes.Trim(n, "0123456789")) == 0 {
			priority, l = n, text
		}
	}
	return slices.Concat(priority, []byte(",0,0,-;"), l)
}

// next returns the next line, nil where there is none.
func (m *msgbuf) next() []byte {
	if len(m.lines) == 0 {
		return nil
	}
	l := m.lines[0]
	m.lines = m.lines[1:]
	return l
}
