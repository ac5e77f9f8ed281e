package cli

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// How often the status is looked at, and told where nobody watches.
const (
	statusEvery = time.Second
	statusLog   = time.Minute
)

// quietLog takes what nobody needs to read: how clients of metrics hung up.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

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
func (a *console) status(ctx context.Context, b *budget.Budget) {
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
	last := statusText(b.Usage())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := statusText(b.Usage())
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

// sharing is the budget of a running server, and what tells of it.
type sharing struct {
	app     *console
	budget  *budget.Budget
	files   budget.Division
	metrics net.Listener // nil where nobody asked
}

// share makes the budget that all listeners of f share.
func (a *console) share(ctx context.Context, f serveFlags) (*sharing, error) {
	r := a.lookForRoom(f.state, f.visitors())
	gives, err := f.budget.config(r, f.visitors())
	if err != nil {
		return nil, err
	}
	s := &sharing{app: a, budget: budget.New(gives), files: r.files}
	if f.metrics != "" {
		if s.metrics, err = listenMetrics(ctx, f.metrics); err != nil {
			return nil, err
		}
	}
	if a.ErrTerminal && !a.quiet {
		a.Err = &statusLine{to: a.Err}
	}
	return s, nil
}

// addr is where metrics are; "" is nowhere.
func (s *sharing) addr() string {
	if s.metrics == nil {
		return ""
	}
	return s.metrics.Addr().String()
}

// close closes what begin would have served.
func (s *sharing) close() {
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
}

// begin tells what is given away until ctx ends or end is called, which waits. That
// this cannot be told does not end the server.
func (s *sharing) begin(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { s.app.status(ctx, s.budget) })
	if s.app.Getenv("GOMEMLIMIT") == "" { // else somebody has decided
		all.Go(func() { holdMemory(ctx, s.budget) })
	}
	if s.metrics != nil {
		all.Go(func() {
			if err := serveMetrics(ctx, s.metrics, s.app.Version, s.budget); err != nil {
				s.app.talk("linerate: %v", err)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// statusText is what is given away now, in one line.
func statusText(u budget.Usage) string {
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
func kindStatus(k budget.KindUsage) string {
	if k.Kind == budget.Sessions {
		return fmt.Sprintf("%d/%d sessions", k.Used(), k.Limit)
	}
	if k.Used() == 0 {
		return ""
	}
	switch k.Kind {
	case budget.Memory, budget.Disk:
		return units.Bytes(k.Used()).Binary() + " " + k.Kind.String()
	case budget.UDP:
		return units.BitRate(k.Used()).String() + " UDP"
	case budget.Egress:
		return units.Bytes(k.Used()).Binary() + " sent"
	case budget.Sessions, budget.Descriptors, budget.Time:
	}
	return ""
}
