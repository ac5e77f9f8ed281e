package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/journal"
)

const (
	// look is the interval at which a live deadline is compared with the clock, which may
	// have run while timers stood still (suspend to memory).
	look = time.Second
	// listen is the interval at which to look for a confirmation while something is applied.
	listen = 200 * time.Millisecond
	// pending is how many replies may wait for an agent that does not read.
	pending = 16
	// parting is how long writing the last replies may take.
	parting = time.Second
)

// server is the watchdog's one goroutine that touches the host.
type server struct {
	m       *machine
	cfg     Config
	dir     journal.Dir
	clock   func() time.Duration
	t       *transaction // nil if nothing is applied
	expires time.Duration
	expired bool           // the deadline undid t, and the agent has not acknowledged it
	undone  []model.Change // by the deadline

	unfinished bool          // the last undo left something open
	again      time.Duration // when to try that again
	wait       time.Duration // time until then
	retry      func()        // ends the journal's retry mark; nil for none
}

// serve is Serve without the signal handling.
func serve(ctx context.Context, in io.Reader, out io.Writer, cfg Config) error {
	cfg.sys = cfg.system()
	_ = cfg.sys.spare.hold() // apply requires it
	replies := make(chan reply, pending)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for r := range replies {
			if writeLine(out, r) != nil {
				return // the agent is gone: its input ends too
			}
		}
	}()
	defer func() {
		close(replies)
		select { // a suspended agent must not keep a finished watchdog alive
		case <-written:
		case <-time.After(parting):
		}
	}()
	return guard(ctx, in, replies, cfg)
}

// guard opens the journal, says hello and answers until the end.
func guard(ctx context.Context, in io.Reader, replies chan<- reply, cfg Config) (err error) {
	dir, err := cfg.state()
	if err != nil {
		replies <- reply{Error: remote(err)}
		return err
	}
	j, err := cfg.open(ctx, dir)
	if err != nil {
		replies <- reply{Error: remote(err)}
		return err
	}
	s := &server{m: newMachine(cfg, j), cfg: cfg, dir: dir, clock: cfg.sys.clock}
	defer s.endRetry()
	defer func() { err = errors.Join(err, s.m.j.Close()) }()
	s.m.takeConfirmation()
	recovered, err := s.m.recover(ctx)
	s.note(err)
	replies <- reply{Ready: true, Changes: recovered, Error: remote(err)}

	requests := make(chan request)
	ended := make(chan error, 1)
	done := make(chan struct{})
	defer close(done)
	// This goroutine may still be reading in when ctx ends: no system can interrupt that for
	// every kind of file. The process then exits.
	gone := make(chan struct{})
	s.m.gone = gone
	go func() {
		defer close(gone)
		ended <- readLines(in, func(r request) bool {
			select {
			case requests <- r:
				return true
			case <-done:
				return false
			}
		})
	}()
	stopped := s.loop(ctx, requests, ended, replies)
	return errors.Join(stopped, s.persist(ctx))
}

// loop answers requests and watches the deadline. It ends with the agent.
func (s *server) loop(ctx context.Context, requests <-chan request, ended <-chan error, replies chan<- reply) error {
	tick := time.NewTimer(look)
	defer tick.Stop()
	for {
		tick.Reset(s.nextLook())
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-tick.C:
			s.watchConfirmation(ctx)
			s.watchDeadline(ctx)
		case r := <-requests:
			s.watchConfirmation(ctx)
			s.watchDeadline(ctx)
			if err := r.check(); err != nil {
				return err
			}
			select {
			case replies <- s.answer(ctx, r):
			default:
				return errors.New("the agent asks and does not read the answers")
			}
		}
	}
}

func (s *server) nextLook() time.Duration {
	next := look
	if s.t != nil {
		next = min(listen, s.expires-s.clock())
	}
	if s.unfinished {
		next = min(next, s.again-s.clock())
	}
	return max(0, next)
}

// watchConfirmation releases a transaction that was confirmed.
func (s *server) watchConfirmation(ctx context.Context) {
	if s.t != nil && s.m.takeConfirmation() == s.t.id {
		s.t = nil
		s.m.disarm(ctx)
	}
}

// watchDeadline undoes a transaction whose deadline has passed, and retries an undo that
// failed.
func (s *server) watchDeadline(ctx context.Context) {
	now := s.clock()
	switch {
	case s.t != nil && now >= s.expires:
		s.t, s.expired = nil, true
	case s.unfinished && now >= s.again:
	default:
		return
	}
	// The next Undo, or the end, reports what stays open.
	changes, _ := s.undoOpen(ctx)
	if s.expired {
		s.undone = lastWord(append(s.undone, changes...))
	}
}

// undoOpen undoes open changes and notes whether anything is left. A confirmation that came
// since the last look is too late: the caller of the undo learns that it was done, and the
// caller of Confirm that the change was not kept. The error wraps journal.ErrLocked while
// another process has the journal, which then undoes the changes.
func (s *server) undoOpen(ctx context.Context) ([]model.Change, error) {
	s.cfg.sys.spare.release()
	defer func() { _ = s.cfg.sys.spare.hold() }() // apply requires it
	if s.m.j.Closed() {
		j, err := s.dir.Open(s.cfg.Version)
		if errors.Is(err, journal.ErrLocked) {
			s.note(err)
			return nil, err
		}
		if err == nil {
			s.m.j = j
		} // else undo what is known
	}
	changes, err := s.m.undoOpen(ctx)
	s.note(err)
	return changes, err
}

// note schedules a retry of what err left open. Until then other processes may try: what
// stops this one may not stop them.
func (s *server) note(err error) {
	s.unfinished = err != nil
	if err == nil {
		s.wait = 0
		s.endRetry()
		return
	}
	s.wait = min(max(firstRetry, 2*s.wait), longestRetry)
	s.again = s.clock() + s.wait
	_ = s.m.j.Close() // reopened by the next try
	if s.retry == nil {
		s.retry, _ = s.dir.Retry() // for display
	}
}

func (s *server) endRetry() {
	if s.retry != nil {
		s.retry()
		s.retry = nil
	}
}

// lastWord keeps the last change of each knob; one that is left in another network namespace
// counts separately.
func lastWord(changes []model.Change) []model.Change {
	var out []model.Change
	for _, c := range changes {
		i := slices.IndexFunc(out, func(o model.Change) bool {
			return o.Knob == c.Knob && o.Native == c.Native && (o.State == model.ChangeApplied) == (c.State == model.ChangeApplied)
		})
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i] = c
	}
	return out
}

func (s *server) answer(ctx context.Context, r request) reply {
	a := reply{ID: r.ID}
	var err error
	switch {
	case r.Op == opRead:
		a.Values = s.cfg.Host.Read(ctx, r.Knobs...)
	case r.Op == opUndo:
		a.Changes, err = s.undo(ctx)
	case s.expired:
		err = ErrExpired
	case r.Op == opApply:
		a.Changes, err = s.apply(ctx, r)
		if s.t != nil {
			a.Transaction = s.t.id
		}
	case s.t == nil && (r.Op == opVerify || r.Op == opExtend):
		err = ErrIdle
	case r.Op == opVerify:
		a.Mismatches = s.t.verify(ctx)
	case r.Op == opExtend:
		err = s.extend(r.Deadline)
	default:
		err = fmt.Errorf("unknown request %q", r.Op)
	}
	a.Error = remote(err)
	return a
}

// apply makes the changes of r or undoes the whole transaction, and returns the changes made
// or undone.
func (s *server) apply(ctx context.Context, r request) ([]model.Change, error) {
	err := s.checkDeadline(r.Deadline)
	var changes []model.Change
	if err == nil && s.t == nil {
		// what an undo could not finish (because of a full disk, say) would be no baseline
		if _, err = s.undoOpen(ctx); errors.Is(err, journal.ErrLocked) {
			return nil, err
		}
		s.t = s.m.begin()
	}
	if err == nil {
		err = s.cfg.sys.spare.hold()
	}
	if err == nil {
		s.expires = s.clock() + r.Deadline
		changes, err = s.t.apply(ctx, r.Changes, s.cfg.sys.now().Add(r.Deadline), func() error {
			if s.clock() >= s.expires {
				return ErrExpired
			}
			return nil
		})
	}
	if err == nil {
		return changes, nil
	}
	s.t = nil
	changes, undoErr := s.undoOpen(ctx)
	for _, c := range changes {
		if c.State == model.ChangeFailed && undoErr == nil { // over nevertheless
			err = fmt.Errorf("%w; %s: %s", err, c.Knob, c.Detail)
		}
	}
	return changes, errors.Join(err, undoErr)
}

func (s *server) checkDeadline(d time.Duration) error {
	if d <= 0 {
		return errors.New("the time of the settings is over before they are made: give them more")
	}
	if s.cfg.Cap > 0 && d > s.cfg.Cap {
		return fmt.Errorf("deadline %s: this host allows %s at most", units.FormatDuration(d), units.FormatDuration(s.cfg.Cap))
	}
	return nil
}

func (s *server) extend(d time.Duration) error {
	if err := s.checkDeadline(d); err != nil {
		return err
	}
	s.expires = s.clock() + d
	return nil
}

func (s *server) undo(ctx context.Context) ([]model.Change, error) {
	s.t = nil
	changes, err := s.m.insist(ctx, s.undoOpen)
	if s.expired {
		changes = lastWord(append(s.undone, changes...))
		err = errors.Join(ErrExpired, err)
	}
	s.expired, s.undone = false, nil
	return changes, err
}
