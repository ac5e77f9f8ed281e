// Package screen filters everything that linerate prints on a terminal: it passes text, and no
// terminal commands except linerate's own.
//
// linerate prints much text from others: host names, servers' refusals, errors of ssh, titles
// from a database. Any of it may contain escapes. So every command prints through a Writer,
// which removes them all. Colours, and a line that is redrawn, are printed with WriteStyled,
// which passes a closed list of commands.
package screen

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"linerate/internal/core/plain"
)

// Redraw returns to the beginning of a line and erases it (CR; EL of ECMA-48 section 8.3.41).
// Only WriteStyled passes it.
const Redraw = "\r\x1b[K"

// own returns what WriteStyled passes: Redraw, and the colours of report/term (SGR of ECMA-48
// section 8.3.117).
func own() []string {
	return []string{Redraw, "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"}
}

// Writer filters and passes on text. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	rest []byte // the beginning of an incomplete character
	// ascii replaces every other character with plain.ASCII.
	ascii bool
	// aside, if set, receives the output instead of to.
	aside func([]byte)
	line  string // drawn below the output
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{to: w} }

// ASCII makes w write only ASCII, for a terminal that shows no more. Call it before anything is
// written.
func (w *Writer) ASCII() { w.ascii = true }

// pass writes filtered text.
func (w *Writer) pass(p []byte) error {
	if w.ascii {
		p = []byte(plain.ASCII(string(p)))
	}
	if w.aside != nil {
		w.aside(p)
		return nil
	}
	if w.line != "" {
		p = slices.Concat([]byte(Redraw), p)
		if p[len(p)-1] == '\n' {
			p = append(p, w.line...)
		}
	}
	_, err := w.to.Write(p)
	return err
}

// Line draws a line below all output and replaces the previous one; "" removes it.
func (w *Writer) Line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text = plain.Line(text); w.ascii {
		text = plain.ASCII(text)
	}
	if text == w.line {
		return
	}
	w.line = text
	if w.aside == nil {
		_, _ = io.WriteString(w.to, Redraw+text) // the terminal may be gone
	}
}

// Line draws a line at the end of w, which may be a test's own writer.
func Line(w io.Writer, text string) {
	if s, ok := w.(*Writer); ok {
		s.Line(text)
	} else if text != "" {
		_, _ = io.WriteString(w, Redraw+text)
	}
}

// divert sends all further output, filtered, to aside; nil restores the terminal.
func (w *Writer) divert(aside func([]byte)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.aside
	w.aside = aside
	switch {
	case w.line == "":
	case aside == nil:
		_, _ = io.WriteString(w.to, w.line) // the terminal may be gone
	case was == nil:
		_, _ = io.WriteString(w.to, Redraw)
	}
}

// Write passes p on as plain.Text. A character may arrive in parts.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(p), w.text(p)
}

// WriteStyled is Write for text with linerate's own commands.
func (w *Writer) WriteStyled(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := len(p)
	var out []byte
	for len(p) > 0 {
		at, command := len(p), ""
		for _, c := range own() {
			if i := bytes.Index(p[:min(len(p), at+len(c)-1)], []byte(c)); i >= 0 && i < at {
				at, command = i, c
			}
		}
		out = append(out, plain.Text(string(p[:at]))...)
		out = append(out, command...)
		p = p[at+len(command):]
	}
	return size, w.pass(out)
}

// Flush writes a pending incomplete character.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 {
		return nil
	}
	err := w.pass([]byte(plain.Text(string(w.rest))))
	w.rest = nil
	return err
}

// text passes p on, except for an incomplete character at its end.
func (w *Writer) text(p []byte) error {
	if len(w.rest) > 0 {
		p = slices.Concat(w.rest, p)
		w.rest = nil
	}
	if cut := incomplete(p); cut > 0 {
		w.rest = slices.Clone(p[len(p)-cut:])
		p = p[:len(p)-cut]
	}
	if len(p) == 0 {
		return nil
	}
	if !plain.Clean(p) {
		p = []byte(plain.Text(string(p)))
	}
	return w.pass(p)
}

// incomplete returns how many bytes at the end of p may begin a character. A carriage return may
// begin a line end.
func incomplete(p []byte) int {
	if bytes.HasSuffix(p, []byte("\r")) {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Held is the output that was held while a screen had the terminal.
type Held struct {
	w    *Writer
	most int
	say  func(string)

	mu    sync.Mutex
	part  []byte // the beginning of a line
	lines []string
	left  int // lines dropped so far
}

// Hold keeps further output, filtered, until Release: the last most lines, or all if most is 0.
// If say is not nil, it is called with each line; it must not write to w.
func (w *Writer) Hold(most int, say func(line string)) *Held {
	h := &Held{w: w, most: most, say: say}
	w.divert(h.write)
	return h
}

func (h *Held) write(p []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.part = append(h.part, p...)
	for {
		text, rest, whole := bytes.Cut(h.part, []byte("\n"))
		if !whole {
			return
		}
		if h.add(string(text)); h.say != nil {
			h.say(string(text))
		}
		h.part = rest
	}
}

// Keep adds a line that was not written to w.
func (h *Held) Keep(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(plain.Line(line))
}

// add stores a line. The caller holds mu.
func (h *Held) add(line string) {
	if h.most > 0 && len(h.lines) >= h.most {
		drop := max(1, h.most/10)
		h.lines, h.left = append(h.lines[:0], h.lines[drop:]...), h.left+drop
	}
	h.lines = append(h.lines, line)
}

// Release writes the kept lines, after more's line about the number of dropped ones, if any.
func (h *Held) Release(more func(left int) string) {
	h.w.divert(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left > 0 {
		h.lines = slices.Insert(h.lines, 0, more(h.left))
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if text := strings.Join(append(h.lines, string(h.part)), "\n"); text != "" {
		_ = h.w.pass([]byte(text)) // it was filtered when it was stored
	}
}
