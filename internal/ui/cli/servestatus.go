package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"linerate/internal/app/serve"
	"linerate/internal/core/plain"
)

// How often the status is checked, and how often it is printed if no person watches.
const (
	statusEvery = time.Second
	statusLog   = time.Minute
)

// status shows the current usage until ctx ends: on a terminal in a line that is redrawn, else
// in a line after each change, at most one a minute.
func (a *console) status(ctx context.Context, usage func() serve.Usage) {
	if a.quiet {
		return
	}
	line, every := a.serving.line, statusLog
	if line != nil {
		every = statusEvery
		defer line.Line("")
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
		case line != nil:
			line.Line(shortened(now, a.Width()-1))
		case now != last:
			a.talk("%s", now)
		}
		last = now
	}
}

// shortened cuts text to most characters, all of which are ASCII or one column wide.
func shortened(text string, most int) string {
	if r := []rune(text); len(r) > most && most > 0 {
		return string(r[:most])
	}
	return text
}

// statusText returns the current usage in one line.
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
