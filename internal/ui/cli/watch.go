package cli

import (
	"context"
	"os"
	"sync"
	"time"

	terminal "golang.org/x/term"

	"linerate/internal/core/model"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// watched is the live screen of the session that goes on, if a person watches one.
type watched struct {
	mu     sync.Mutex
	state  *uilive.State // nil where there is no session, or no screen for it
	screen *uilive.Screen
	wake   chan struct{} // a key was pressed, or the screen is gone
	held   []*screen.Held
}

// now is the state that is shown now, nil without any.
func (w *watched) now() *uilive.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.screen == nil {
		return nil
	}
	return w.state
}

// watches reports whether a person watches who can have the whole terminal drawn.
func (a *console) watches() bool {
	in, file := a.In.(*os.File)
	if !file {
		return false
	}
	if columns, rows, err := terminal.GetSize(int(in.Fd())); err != nil || columns < 20 || rows < 6 { // one that does not know says 0
		return false
	}
	return a.InTerminal && a.OutTerminal && a.ErrTerminal && !a.quiet && !a.json && !a.lines && a.intervals == nil &&
		a.Getenv("TERM") != "dumb" && a.Getenv("TERM") != "" && uilive.Foreground(in)
}

// watch begins to tell how a session goes on: other processes, and on a screen where
// somebody watches.
func (a *console) watch(s model.Session) {
	a.sharing = a.share(s.ID, a.live.whole)
	if !a.watches() {
		return
	}
	a.watched.mu.Lock()
	a.watched.state = a.live.whole
	a.watched.mu.Unlock()
	a.showScreen()
}

// unwatch ends the screen of a session for good.
func (a *console) unwatch() {
	_ = a.hideScreen()
	a.sharing()
	a.watched.mu.Lock()
	defer a.watched.mu.Unlock()
	a.watched.state = nil
}

// showScreen opens the screen of the state that there is.
func (a *console) showScreen() {
	w := &a.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-a.interrupted:
		return
	default:
	}
	if w.state == nil || w.screen != nil {
		return
	}
	state := w.state
	w.wake = make(chan struct{}, 1)
	if out, ok := a.Out.(*screen.Writer); ok {
		w.held = append(w.held, out.Hold(0, nil))
	}
	if errs, ok := a.Err.(*screen.Writer); ok {
		w.held = append(w.held, errs.Hold(0, state.Say))
	}
	s := uilive.Show(context.Background(), uilive.Terminal{In: a.In, Out: a.raw.Err, Env: os.Environ(), ASCII: !utf8Locale(a.Getenv)}, state.View, a.pressed)
	w.screen = s
	go func() { // until the screen is closed, by whomever
		select {
		case <-a.interrupted:
			_ = a.hideScreen()
			a.talk("stopping: what was changed goes back, data are kept; ctrl-c ends at once")
		case <-s.Ended():
			_ = a.hideScreen()
		}
	}()
}

// pressed is told of a key.
func (a *console) pressed(key string) {
	switch w := a.watched.now(); {
	case key == "q":
		a.interrupt()
	case w != nil && key == "p":
		w.TogglePause()
	}
	a.watched.stir()
}

// stir wakes who waits in a pause.
func (w *watched) stir() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // nobody waits, or somebody is woken already
	}
}

// hideScreen gives the terminal back, if there is a screen, and returns what shows it
// again.
func (a *console) hideScreen() (again func()) {
	w := &a.watched
	w.mu.Lock()
	s := w.screen
	held := w.held
	w.screen, w.held = nil, nil
	w.mu.Unlock()
	if s == nil {
		return func() {}
	}
	s.Close()
	w.stir()
	for _, h := range held {
		h.Release(nil)
	}
	if err := s.Err(); err != nil {
		a.lines = true
		a.talk("no live screen on this terminal: %v", err)
	}
	return func() {
		if !a.lines {
			a.showScreen()
		}
	}
}

// between is app.Env.Between: it waits while a person pauses.
func (a *console) between(ctx context.Context, still []string) error {
	w := &a.watched
	for {
		state := w.now()
		if state == nil || !state.Rest(still) {
			return nil
		}
		w.mu.Lock()
		wake := w.wake
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-time.After(time.Second): // whatever was missed
		}
	}
}
