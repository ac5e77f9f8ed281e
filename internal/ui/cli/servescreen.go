package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"linerate/internal/app/serve"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	uilive "linerate/internal/ui/live"
)

// keptServed is how many lines of a server are written when its screen is gone. A server
// may go on for months; its audit log has all of them.
const keptServed = 1000

// serveScreen is the live screen of a server, where somebody watches.
type serveScreen struct {
	state *uilive.Server
	line  *statusLine // nil where nobody watches

	mu    sync.Mutex
	shown bool
	part  []byte   // the beginning of a line
	kept  []string // what was written meanwhile
	left  int      // lines that are kept no more
}

// keep keeps a line that the screen tells in its own way, where there is one.
func (w *serveScreen) keep(line string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown {
		w.add(plain.Line(line))
	}
	return w.shown
}

// add keeps a line, for a caller that holds mu.
func (w *serveScreen) add(line string) {
	if len(w.kept) >= keptServed {
		drop := keptServed / 10
		w.kept, w.left = append(w.kept[:0], w.kept[drop:]...), w.left+drop
	}
	w.kept = append(w.kept, line)
}

// write takes what would go to the terminal: the screen shows it now, and it is written
// when that is gone.
func (w *serveScreen) write(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part = append(w.part, p...)
	for {
		text, rest, whole := bytes.Cut(w.part, []byte("\n"))
		if !whole {
			return
		}
		w.state.Say(string(text))
		w.add(string(text))
		w.part = rest
	}
}

// show has the screen of s on the terminal until ctx ends, where somebody watches. Where
// a link was printed it comes with the first visitor, so that the link can be taken first.
func (w *serveScreen) show(ctx context.Context, a *console, s *serve.Server) {
	if w.line == nil || !a.watches() {
		return
	}
	if s.Shows() {
		select {
		case <-w.state.Came():
		case <-ctx.Done():
			return
		}
		if !a.watches() { // it went to the background
			return
		}
	}
	w.begins(true)
	w.line.divert(w.write)
	t := uilive.Terminal{In: a.In, Out: a.raw.Err, Env: os.Environ(), ASCII: !utf8Locale(a.Getenv), Own: w.state.Own}
	screen := uilive.Show(context.Background(), t, func(size uilive.Size) string {
		w.state.Gives(allowances(s.Usage()))
		return w.state.View(size)
	}, func(key string) {
		switch key {
		case "q":
			a.interrupt()
		case "l":
			w.state.ToggleOwn()
		}
	})
	select {
	case <-ctx.Done():
	case <-screen.Ended():
	}
	screen.Close()
	w.begins(false)
	w.line.divert(nil)
	w.flush(a)
	if err := screen.Err(); err != nil {
		a.talk("no live screen on this terminal: %v", err)
	}
}

func (w *serveScreen) begins(shown bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown = shown
}

// flush writes what was kept.
func (w *serveScreen) flush(a *console) {
	w.mu.Lock()
	kept, left := w.kept, w.left
	w.kept, w.left = nil, 0
	w.mu.Unlock()
	if left > 0 {
		a.talk("%d lines before these are left out; --audit FILE keeps them all", left)
	}
	for _, line := range kept {
		fmt.Fprintln(a.Err, line)
	}
}

// traffic is what the traffic of a flow is called.
func (a *console) traffic(f model.Flow) string {
	called := func(engine string) string {
		if k, ok := a.kinds().ByName(engine); ok {
			return k.Called()
		}
		return engine
	}
	if load := probes.Load(f); load.Engine != f.Engine {
		return called(load.Engine) + " with probes"
	}
	return called(f.Engine)
}

// aboutServer is what a server says of itself on its screen: never its secret.
func aboutServer(s *serve.Server, open bool) uilive.About {
	about := uilive.About{Addr: s.Addr().String()}
	row := func(format string, args ...any) { about.Rows = append(about.Rows, fmt.Sprintf(format, args...)) }
	switch {
	case open:
		row("open: who reaches the port may measure, within the limits")
	case s.Shows():
		row("who has its join link may measure: l shows it")
	default:
		row("who has its join link may measure: linerate serve link prints it")
	}
	for _, l := range s.Listeners() {
		row("answers %s clients on %s", l.Name, l.Addr)
	}
	if name := s.AnnouncedAs(); name != "" {
		row("announced on the local network as %s", name)
	}
	if addr := s.MetricsAddr(); addr != "" {
		row("metrics on http://%s/metrics", addr)
	}
	return about
}

// allowances are the kinds of a budget of which there is something to tell.
func allowances(u serve.Usage) []uilive.Allowance {
	var all []uilive.Allowance
	for _, k := range u.Kinds {
		if k.Kind != serve.Sessions && k.Used() == 0 && k.Refused == 0 {
			continue
		}
		used := k.Used()
		if k.Kind == serve.Time {
			used = int64(time.Duration(used).Truncate(time.Second))
		}
		one := uilive.Allowance{Name: kindWords(k.Kind).over(kindWords(k.Kind).name, u.Window), Used: amount(k.Kind, used), Limit: "no limit", Source: "no limit", Refused: k.Refused}
		if k.Limit >= 0 {
			one.Limit = amount(k.Kind, k.Limit)
		}
		switch {
		case u.Kinds[serve.Sessions].AllAnonymous == 0:
			one.Source = "" // nobody comes without a key
		case k.Source >= 0:
			one.Source = amount(k.Kind, k.Source)
		}
		all = append(all, one)
	}
	return all
}

// amount is so much of a kind, with its unit.
func amount(k serve.Kind, n int64) string {
	switch k {
	case serve.Memory, serve.Disk, serve.Egress:
		return units.Bytes(n).Binary()
	case serve.UDP:
		return units.BitRate(n).String()
	case serve.Time:
		return units.FormatDuration(time.Duration(n))
	case serve.Sessions, serve.Descriptors, serve.Records:
	}
	return fmt.Sprint(n)
}
