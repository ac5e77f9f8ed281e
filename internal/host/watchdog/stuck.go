package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/atboot"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
)

// UndoMark begins every line for Config.Talk that tells of the undo itself.
const UndoMark = "undo: "

const (
	// firstRetry is after how long an undo that failed is tried again, and
	// longestRetry is what the time between two tries grows to by doubling: a driver
	// that is busy with a link needs seconds, somebody who holds a file hours.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 30 * time.Second
	// brief is how long a try of a person or of an agent that starts goes on.
	brief = 5 * time.Second
	// persistence is how long a watchdog goes on whose agent is gone: far longer than
	// any deadline.
	persistence = 12 * time.Hour
)

// StuckError says that places of settings could not be put back: they are open in
// the journal still. It wraps the reasons.
type StuckError struct {
	Open, Of int // places
	Reasons  []error
}

// Error names the reasons.
func (e *StuckError) Error() string {
	return fmt.Sprintf("%d of %d settings not undone: %s", e.Open, e.Of, e.because())
}

func (e *StuckError) because() string {
	all := lists.Each(e.Reasons, func(r error) string { return r.Error() })
	return strings.Join(all, "; ")
}

// Unwrap returns the reasons.
func (e *StuckError) Unwrap() []error { return e.Reasons }

// passing reports whether e may be over in a moment: more rights, or another
// system, do not come by themselves.
func (e *StuckError) passing() bool {
	for _, r := range e.Reasons {
		if !errors.Is(r, fs.ErrPermission) && !errors.Is(r, errors.ErrUnsupported) && !errors.Is(r, hostknob.ErrNotOurs) {
			return true
		}
	}
	return false
}

// worthATry reports whether e may ever be over: a record that is not ours will not
// become so.
func (e *StuckError) worthATry() bool {
	return slices.ContainsFunc(e.Reasons, func(r error) bool { return !errors.Is(r, hostknob.ErrNotOurs) })
}

// stuck returns the part of err that says what is open, nil for none.
func stuck(err error) *StuckError {
	e, _ := errors.AsType[*StuckError](err)
	return e
}

// tell has other processes know, which find the journal locked, what is open.
func (m *machine) tell(err error) {
	e := stuck(err)
	if e == nil {
		m.of = 0
		m.j.Note("")
		return
	}
	m.of = max(m.of, e.Of)
	m.j.Note(fmt.Sprintf("%d of %d open, because: %s", e.Open, m.of, e.because()))
}

// insist calls try again for a short while, as long as something is stuck that
// may come free. It returns the last word on each change.
func (m *machine) insist(ctx context.Context, try func(context.Context) ([]model.Change, error)) ([]model.Change, error) {
	changes, err := try(ctx)
	end := time.Now().Add(brief)
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		e := stuck(err)
		passing := e != nil && e.passing() || errors.Is(err, journal.ErrLocked)
		if !passing || time.Now().Add(wait).After(end) {
			return changes, err
		}
		m.after("still open")
		select {
		case <-ctx.Done():
			return changes, err
		case <-time.After(wait):
		}
		var more []model.Change
		more, err = try(ctx)
		changes = lastWord(append(changes, more...))
	}
}

// persist undoes what is open and does not end while a setting is changed, until
// persistence is over, or another process has the journal, which may not finish. Who ends
// the process by force leaves it to the next start of linerate, or to the job for the next
// start of the machine.
func (s *server) persist(ctx context.Context) error {
	end := s.clock() + persistence
	s.watchConfirmation(ctx) // of an agent that has gone since
	_, err := s.undoOpen(ctx)
	for errors.Is(err, journal.ErrLocked) || stuck(err) != nil && stuck(err).worthATry() {
		if s.clock() >= end {
			return s.handOver(err)
		}
		s.m.after("still open")
		<-time.After(max(0, s.again-s.clock()))
		if _, next := s.undoOpen(ctx); !errors.Is(next, journal.ErrLocked) {
			err = next
		}
	}
	return err
}

// handOver says what is left to whom.
func (s *server) handOver(err error) error {
	next := "linerate undo, or the next start of linerate here, tries again"
	if atboot.Installed(s.m.boot.keeper.State) {
		next = "the job for the next start of the machine tries again, or linerate undo before"
	}
	err = fmt.Errorf("gave up after %s: %w; %s", units.FormatDuration(persistence), err, next)
	s.m.boot.talkf(UndoMark, "%v", err)
	return err
}

// goOn has a watchdog of its own go on with what is stuck, after this process. It
// returns changes with what that put back at once.
func goOn(ctx context.Context, cfg Config, changes []model.Change, err error) ([]model.Change, error) {
	e := stuck(err)
	if e == nil || !e.passing() || cfg.Command == nil {
		return changes, err
	}
	dir, stateErr := cfg.state()
	if stateErr != nil {
		return changes, errors.Join(err, stateErr)
	}
	done, busy := dir.Retry()
	if held, ok := errors.AsType[*journal.HeldError](busy); ok {
		return changes, fmt.Errorf("%w; %s, goes on trying", err, held.Who)
	}
	if busy == nil {
		done() // that is what the next one does
	}
	c, startErr := Start(context.WithoutCancel(ctx), cfg) // who gives up waiting leaves it to that one
	if startErr != nil {
		return changes, errors.Join(err, startErr)
	}
	c.close.Do(func() { _ = c.process.in.Close() })
	changes = lastWord(append(changes, c.Recovered...))
	if c.RecoveryErr == nil {
		return changes, nil
	}
	return changes, fmt.Errorf("%w; process %d goes on trying", err, c.process.pid)
}
