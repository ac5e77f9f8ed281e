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

// UndoMark begins every line for Config.Talk about the undo itself.
const UndoMark = "undo: "

const (
	// firstRetry is the time until a failed undo is tried again, and longestRetry the limit
	// to which that time doubles: a driver that is busy with a link needs seconds, a program
	// that holds a file hours.
	firstRetry   = 100 * time.Millisecond
	longestRetry = 30 * time.Second
	// brief is how long a user's try, or that of a starting agent, goes on.
	brief = 5 * time.Second
	// persistence is how long a watchdog whose agent is gone goes on: far longer than any
	// deadline.
	persistence = 12 * time.Hour
)

// StuckError reports places whose settings could not be restored: they are still open in the
// journal. It wraps the reasons.
type StuckError struct {
	Open, Of int // places
	Reasons  []error
}

// Error returns a message with the reasons.
func (e *StuckError) Error() string {
	return fmt.Sprintf("%d of %d settings not undone: %s", e.Open, e.Of, e.because())
}

func (e *StuckError) because() string {
	all := lists.Each(e.Reasons, func(r error) string { return r.Error() })
	return strings.Join(all, "; ")
}

// Unwrap returns the reasons.
func (e *StuckError) Unwrap() []error { return e.Reasons }

// passing reports whether e may resolve itself soon: more rights, or another system, do not
// come by themselves.
func (e *StuckError) passing() bool {
	for _, r := range e.Reasons {
		if !errors.Is(r, fs.ErrPermission) && !errors.Is(r, errors.ErrUnsupported) && !errors.Is(r, hostknob.ErrNotOurs) {
			return true
		}
	}
	return false
}

// worthATry reports whether e may ever resolve itself: a record that is not linerate's never
// will.
func (e *StuckError) worthATry() bool {
	return slices.ContainsFunc(e.Reasons, func(r error) bool { return !errors.Is(r, hostknob.ErrNotOurs) })
}

// stuck returns the StuckError in err, nil if there is none.
func stuck(err error) *StuckError {
	e, _ := errors.AsType[*StuckError](err)
	return e
}

// tell notes what is open for other processes, which find the journal locked.
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

// insist calls try again for a short while, as long as something is stuck that may come free.
// It returns the last result for each change.
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

// persist undoes open changes. It does not end while a setting is changed, until persistence
// is over or another process has the journal, which may not finish. If the process is killed,
// the next start of linerate, or the boot job, does the rest.
func (s *server) persist(ctx context.Context) error {
	end := s.clock() + persistence
	s.watchConfirmation(ctx) // from an agent that has gone since
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

// handOver reports what is left, and what will try next.
func (s *server) handOver(err error) error {
	next := "linerate undo, or the next start of linerate here, tries again"
	if atboot.Installed(s.m.boot.keeper.State) {
		next = "the job for the next start of the machine tries again, or linerate undo before"
	}
	err = fmt.Errorf("gave up after %s: %w; %s", units.FormatDuration(persistence), err, next)
	s.m.boot.talkf(UndoMark, "%v", err)
	return err
}

// goOn starts a watchdog that continues with what is stuck after this process ends. It
// returns changes plus what that watchdog restored at once.
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
		done() // the new watchdog does that
	}
	c, startErr := Start(context.WithoutCancel(ctx), cfg) // after a timeout here that one goes on
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
