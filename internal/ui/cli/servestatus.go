package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"linerate/internal/app/serve"
	"linerate/internal/core/plain"
	"linerate/internal/ui/screen"
)

// How often the status is looked at, and told where nobody watches.
const (
	statusEvery = time.Second
	statusLog   = time.Minute
)

// statusLine is a line at the end of a terminal that is drawn again after what
// others write. It is safe for concurrent use.
type statusLine struct {
	mu    sync.Mutex
	to    io.Writer
	line  string       // "" is none
	aside func([]byte) // takes what others write, while a screen has the terminal; nil without one
}

// Write writes what others say above the line.
func (s *statusLine) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside != nil {
		s.aside(p)
		return len(p), nil
	}
	if s.line == "" {
		return s.to.Write(p)
	}
	screen.Styled(s.to, screen.Redraw)
	n, err := s.to.Write(p)
	if err == nil && strings.HasSuffix(string(p), "\n") {
		_, err = io.WriteString(s.to, s.line)
	}
	return n, err
}

// divert has what others write given to aside, and no line drawn, until it is called
// with nil.
func (s *statusLine) divert(aside func([]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside == nil && s.line != "" {
		screen.Styled(s.to, screen.Redraw)
	}
	s.aside = aside
	if aside == nil {
		_, _ = io.WriteString(s.to, s.line)
	}
}

// show draws line in the place of the one before; "" removes it.
func (s *statusLine) show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == line {
		return
	}
	s.line = line
	if s.aside == nil {
		screen.Styled(s.to, screen.Redraw)
		_, _ = io.WriteString(s.to, line)
	}
}

// status shows what is given away until ctx ends: on a terminal in a line that is
// renewed, else in a line each time that something changed, at most one a minute.
func (a *console) status(ctx context.Context, usage func() serve.Usage) {
	if a.quiet {
		return
	}
	line, terminal := a.Err.(*statusLine)
	every := statusLog
	if terminal {
		every = statusEvery
		defer line.show("")
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := statusText(usage())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := statusText(usage())
		switch {
		case terminal:
			line.show(shortened(now, a.Width()-1))
		case now != last:
			a.talk("%s", now)
		}
		last = now
	}
}

// shortened is the beginning of text that has most characters, all of which are
// ASCII or one column wide.
func shortened(text string, most int) string {
	if r := []rune(text); len(r) > most && most > 0 {
		return string(r[:most])
	}
	return text
}

// statusText is what is given away now, in one line.
func statusText(u serve.Usage) string {
	var parts []string
	refused := int64(0)
	for _, k := range u.Kinds {
		refused += k.Refused
		switch words := kindWords(k.Kind).now; {
		case k.Kind == serve.Sessions:
			parts = append(parts, fmt.Sprintf("%d/%d sessions", k.Used(), k.Limit))
		case words != "" && k.Used() > 0:
			parts = append(parts, amount(k.Kind, k.Used())+" "+words)
		}
	}
	text := strings.Join(parts, ", ")
	if u.Active > 0 {
		text += ", " + plain.Count(u.Active, "source")
	}
	if refused > 0 {
		text += fmt.Sprintf(", %d refused", refused)
	}
	return text
}
