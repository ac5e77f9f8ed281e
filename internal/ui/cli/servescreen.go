package cli

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"linerate/internal/app/serve"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/units"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// keptServed is how many lines of a server are printed after its screen closes. A server may run
// for months; its audit log has all of them.
const keptServed = 1000

// serveScreen is the live screen of a server, for a person who watches.
type serveScreen struct {
	state *uilive.Server
	line  *screen.Writer // nil if no person watches

	mu   sync.Mutex
	held *screen.Held // while the screen is shown
}

// keep stores a line that the screen shows in its own way, and reports whether there is a screen.
func (w *serveScreen) keep(line string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		return false
	}
	w.held.Keep(line)
	return true
}

// hold gives the terminal to the screen until the returned function is called.
func (w *serveScreen) hold() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.line.Hold(keptServed, w.state.Say)
	w.held = held
	return func() {
		w.mu.Lock()
		w.held = nil
		w.mu.Unlock()
		held.Release(func(left int) string {
			return fmt.Sprintf("%d lines before these are left out; --audit FILE keeps them all", left)
		})
	}
}

// show shows the screen of s until ctx ends, if a person watches. If a link was printed, the
// screen waits for the first visitor, so that the link can be copied first.
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
		if !a.watches() { // it is in the background now
			return
		}
	}
	release := w.hold()
	t := uilive.Terminal{In: a.In, Out: a.raw.Err, Env: os.Environ(), ASCII: !utf8Locale(a.Getenv), Own: w.state.Own}
	shown := uilive.Show(context.Background(), t, func(size uilive.Size) string {
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
	case <-shown.Ended():
	}
	shown.Close()
	release()
	if err := shown.Err(); err != nil {
		a.talk("no live screen on this terminal: %v", err)
	}
}

// traffic returns the name of a flow's traffic.
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

// aboutServer describes a server on its screen, without its secret.
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

// allowances returns the kinds of a budget that are worth showing.
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
			one.Source = "" // every client has a key
		case k.Source >= 0:
			one.Source = amount(k.Kind, k.Source)
		}
		all = append(all, one)
	}
	return all
}

// amount formats an amount of a kind, with its unit.
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
