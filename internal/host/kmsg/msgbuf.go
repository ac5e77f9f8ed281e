package kmsg

import (
	"bytes"
	"slices"
)

// remembered is how much of the end of a message buffer marks where the next reading
// continues.
const remembered = 256

// msgbuf finds the new lines in readings of the whole message buffer of a BSD kernel, which
// starts anywhere and ends with the newest line.
type msgbuf struct {
	tail  []byte   // of the last reading
	lines [][]byte // not returned yet
}

// take processes a reading. The first one only marks the end. If nothing of the last reading
// is left in the buffer, all of it is new.
func (m *msgbuf) take(b []byte) {
	b = bytes.Trim(b, "\x00")
	b = b[:bytes.LastIndexByte(b, '\n')+1] // an incomplete line comes next time
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

// record6 writes a line of the buffer in the format of Linux' /dev/kmsg. Lines of programs
// start with "<118>" (facility x 8 + level, FreeBSD kern.msgbuf); those of the kernel have no
// prefix.
func record6(l []byte) []byte {
	priority := []byte("6")
	if rest, found := bytes.CutPrefix(l, []byte("<")); found {
		if n, text, found := bytes.Cut(rest, []byte(">")); found && len(n) > 0 && len(n) <= 3 && len(bytes.Trim(n, "0123456789")) == 0 {
			priority, l = n, text
		}
	}
	return slices.Concat(priority, []byte(",0,0,-;"), l)
}

// next returns the next line, or nil.
func (m *msgbuf) next() []byte {
	if len(m.lines) == 0 {
		return nil
	}
	l := m.lines[0]
	m.lines = m.lines[1:]
	return l
}
