// Package screen is between everything that linerate prints and the terminal: it
// lets text through and commands to the terminal not, but for linerate's own.
//
// What linerate says holds much that others said: names of hosts, refusals of
// servers, reasons of ssh, titles out of a database. Any of it may hold escapes.
// So every command prints through a Writer, which stops them all. Colour, and a
// line that is drawn over, come through WriteStyled, by the few who write them;
// there too only the commands of a closed list pass.
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

// Redraw goes to the beginning of a line and erases it (CR; EL of ECMA-48 section
// 8.3.41). Only WriteStyled lets it pass.
const Redraw = "\r\x1b[K"

// own returns what WriteStyled lets pass: Redraw, and the colours of report/term
// (SGR of ECMA-48 section 8.3.117).
func own() []string {
	return []string{Redraw, "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"}
}

// Writer passes on text. It is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	rest []byte // the beginning of a character that is not complete
	// ascii has plain.ASCII in place of every character that is not.
	ascii bool
	// aside, where it is set, takes what would go to to.
	aside func([]byte)
	line  string // stands below what is written
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{to: w} }

// ASCII makes w pass on nothing but ASCII, for a terminal that shows no more. It is
// called before anything is written.
func (w *Writer) ASCII() { w.ascii = true }

// pass writes what was made fit to be shown.
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

// Line draws a line below all that is written, in the place of the line before; "" removes it.
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

// Line draws a line at the end of w, which tests may have made.
func Line(w io.Writer, text string) {
	if s, ok := w.(*Writer); ok {
		s.Line(text)
	} else if text != "" {
		_, _ = io.WriteString(w, Redraw+text)
	}
}

// divert has all that is written from now on given to aside, fit to be shown; nil has it go
// to the terminal again.
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

// Write passes p on as plain.Text. A character may come in parts.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(p), w.text(p)
}

// WriteStyled is Write for text with commands of linerate's own.
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

// Flush passes on what may be the beginning of a character.
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

// text passes p on, but for a last part of a character.
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

// incomplete returns how many bytes at the end of p may begin a character. A
// carriage return may begin the end of a line.
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

// Held is what was written while something else had the terminal.
type Held struct {
	w    *Writer
	most int
	say  func(string)

	mu    sync.Mutex
	part  []byte // the beginning of a line
	lines []string
	left  int // lines that are kept no more
}

// Hold keeps what is written from now on, fit to be shown, until Release: the last most lines,
// or all if most is 0. If say is not nil, it is called with each line; it must not write to w.
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

// add keeps a line, for a caller that holds mu.
func (h *Held) add(line string) {
	if h.most > 0 && len(h.lines) >= h.most {
		drop := max(1, h.most/10)
		h.lines, h.left = append(h.lines[:0], h.lines[drop:]...), h.left+drop
	}
	h.lines = append(h.lines, line)
}

// Release writes what was kept, after more says how many lines were left out, where some were.
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
		_ = h.w.pass([]byte(text)) // it was made fit to be shown when it was kept
	}
}
