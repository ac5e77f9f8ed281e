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

// watched is the live screen of the current session, if a person watches.
type watched struct {
	mu     sync.Mutex
	state  *uilive.State // nil if there is no session, or no screen for it
	screen *uilive.Screen
	wake   chan struct{} // a key was pressed, or the screen is gone
	held   []*screen.Held
}

// now returns the state on the screen, nil if there is none.
func (w *watched) now() *uilive.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.screen == nil {
		return nil
	}
	return w.state
}

// watches reports whether a person watches on a terminal that can be drawn in full.
func (a *console) watches() bool {
	in, file := a.In.(*os.File)
	if !file {
		return false
	}
	if columns, rows, err := terminal.GetSize(int(in.Fd())); err != nil || columns < 20 || rows < 6 { // an unknown size is 0
		return false
	}
	return a.InTerminal && a.OutTerminal && a.ErrTerminal && !a.quiet && !a.json && !a.lines && a.intervals == nil &&
		a.Getenv("TERM") != "dumb" && a.Getenv("TERM") != "" && uilive.Foreground(in)
}

// watch starts to show a session's progress: to other processes, and on a screen if a person
// watches.
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

// unwatch closes the screen of a session for good.
func (a *console) unwatch() {
	_ = a.hideScreen()
	a.sharing()
	a.watched.mu.Lock()
	defer a.watched.mu.Unlock()
	a.watched.state = nil
}

// showScreen opens the screen of the current state.
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
	go func() { // until the screen is closed
		select {
		case <-a.interrupted:
			_ = a.hideScreen()
			a.talk("stopping: what was changed goes back, data are kept; ctrl-c ends at once")
		case <-s.Ended():
			_ = a.hideScreen()
		}
	}()
}

// pressed handles a key.
func (a *console) pressed(key string) {
	switch w := a.watched.now(); {
	case key == "q":
		a.interrupt()
	case w != nil && key == "p":
		w.TogglePause()
	}
	a.watched.stir()
}

// stir wakes a pause.
func (w *watched) stir() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // no pause, or already woken
	}
}

// hideScreen gives the terminal back, if there is a screen, and returns a function that shows
// the screen again.
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

// between is app.Env.Between: it waits while the user has paused.
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
		case <-time.After(time.Second): // in case a wake-up was missed
		}
	}
}
