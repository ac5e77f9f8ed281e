package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"linerate/internal/app/serve"
	"linerate/internal/core/units"
)

// How often the status is looked at, and told where nobody watches.
const (
	statusEvery = time.Second
	statusLog   = time.Minute
)

// statusLine is a line at the end of a terminal that is drawn again after what
// others write. It is safe for concurrent use.
type statusLine struct {
	mu   sync.Mutex
	to   io.Writer
	line string // "" is none
}

// eraseLine goes to the start of the line and empties it (ECMA-48, EL).
const eraseLine = "\r\x1b[K"

// Write writes what others say above the line.
func (s *statusLine) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == "" {
		return s.to.Write(p)
	}
	if _, err := io.WriteString(s.to, eraseLine); err != nil {
		return 0, err
	}
	n, err := s.to.Write(p)
	if err == nil && strings.HasSuffix(string(p), "\n") {
		_, err = io.WriteString(s.to, s.line)
	}
	return n, err
}

// show draws line in the place of the one before; "" removes it.
func (s *statusLine) show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == line {
		return
	}
	s.line = line
	_, _ = io.WriteString(s.to, eraseLine+line)
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
		if text := kindStatus(k); text != "" {
			parts = append(parts, text)
		}
	}
	text := strings.Join(parts, ", ")
	if u.Active > 0 {
		text += ", " + plural(u.Active, "source")
	}
	if refused > 0 {
		text += fmt.Sprintf(", %d refused", refused)
	}
	return text
}

// kindStatus is how much is used of a kind; "" where that is nothing worth a word.
func kindStatus(k serve.KindUsage) string {
	if k.Kind == serve.Sessions {
		return fmt.Sprintf("%d/%d sessions", k.Used(), k.Limit)
	}
	if k.Used() == 0 {
		return ""
	}
	switch k.Kind {
	case serve.Memory, serve.Disk:
		return units.Bytes(k.Used()).Binary() + " " + k.Kind.String()
	case serve.UDP:
		return units.BitRate(k.Used()).String() + " UDP"
	case serve.Egress:
		return units.Bytes(k.Used()).Binary() + " sent"
	case serve.Sessions, serve.Descriptors, serve.Time, serve.Records:
	}
	return ""
}
