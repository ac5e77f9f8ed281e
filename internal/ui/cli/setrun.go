package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
)

// carryOut changes the hosts, and keeps the change or takes it back. The error
// says why it was not kept; that nobody was there to keep it is none.
func (s *setting) carryOut(ctx context.Context) error {
	if err := s.ask(ctx, 0, func(e *setEnd, r []probe.Result) { e.before = r }); err != nil {
		s.outcome, s.reason = outcomeUndone, "nothing was changed"
		return err
	}
	s.tellCanaries()
	s.tryTransfer(ctx)
	if err := s.apply(ctx); err != nil {
		return s.back(ctx, setFault(err), "")
	}
	s.announce()
	if err := s.prove(ctx); err != nil {
		return s.back(ctx, err, "")
	}
	for _, e := range s.changing() { // the time to decide begins now, on all hosts
		if err := e.client.Extend(ctx, s.flags.within); err != nil {
			return s.back(ctx, err, "")
		}
	}
	return s.decide(ctx)
}

// provingTime is how long a new MTU may take to be proven: the hosts do not go
// back while it is, however short the time to decide.
const provingTime = 45 * time.Second

// deadline is when a host goes back from a change that nobody has proven yet.
func (s *setting) deadline() time.Duration {
	if s.changesMTU() {
		return max(provingTime, s.flags.within)
	}
	return s.flags.within
}

// settle is how long a link may be down after a change.
func (s *setting) settle() time.Duration { return min(settleTime, s.flags.within/2) }

// tellCanaries says who will be asked after the change.
func (s *setting) tellCanaries() {
	for _, e := range s.ends {
		var ok, silent []string
		for _, r := range e.before {
			what, _, _ := strings.Cut(r.String(), " answers: ")
			if !r.OK {
				silent = append(silent, r.String())
				continue
			}
			ok = append(ok, what)
		}
		if len(ok) > 0 {
			s.app.talk("%s watches %s", e.name, strings.Join(ok, ", "))
		}
		for _, line := range silent {
			s.app.talk("not watched from %s: %s", e.name, line)
		}
		if len(ok) == 0 && s.risky() {
			s.app.talk("note: nobody answers %s: nothing but the deadline protects it; name somebody with --canary", e.name)
		}
	}
}

// apply changes all hosts, one after the other; each step is seen to leave them
// reachable before the next one. On an error the caller takes back what was changed.
func (s *setting) apply(ctx context.Context) error {
	s.sequence = s.order()
	for i, e := range s.sequence {
		e.applied = true // a failure half way is undone too
		changes, err := e.client.Apply(ctx, slices.Clone(e.wanted), s.deadline())
		if err != nil {
			return err
		}
		e.changes = changes
		if err := e.client.Verify(ctx); err != nil {
			return err
		}
		if e.transaction, err = e.client.Pending(ctx); err != nil {
			return err
		}
		if i+1 < len(s.sequence) {
			if err := s.reachable(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchStep is how often the hosts are asked whether they hold the change.
const watchStep = time.Second

// decide holds the change until a person keeps it or declines, a host loses it,
// or the time is over.
func (s *setting) decide(ctx context.Context) error {
	length := units.FormatDuration(s.flags.within)
	person := s.app.InTerminal && s.app.ErrTerminal
	var answers <-chan string
	if person {
		fmt.Fprintf(s.app.Err, "keep it? [y/N] (goes back by itself in %s) ", length)
		answers = s.read()
	} else {
		s.app.talk("held for %s, then it goes back: to keep it takes a terminal on which to confirm", length)
	}
	late := time.NewTimer(s.flags.within)
	defer late.Stop()
	watch := time.NewTicker(watchStep)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.back(ctx, errors.New("stopped by the user"), "")
		case <-late.C:
			if person {
				fmt.Fprintln(s.app.Err)
				return s.back(ctx, fmt.Errorf("nobody confirmed within %s", length), "")
			}
			return s.back(ctx, nil, "held for "+length)
		case answer := <-answers:
			if answer == "y" || answer == "yes" {
				return s.confirm(ctx)
			}
			return s.back(ctx, nil, "not confirmed")
		case <-watch.C:
			if err := s.verify(ctx); err != nil && ctx.Err() == nil {
				if person {
					fmt.Fprintln(s.app.Err)
				}
				return s.back(ctx, err, "")
			}
		}
	}
}

// read reads one line of the terminal. Its goroutine may stay in the read until
// the process ends: no system can wake it up from there for every terminal.
func (s *setting) read() <-chan string {
	answers := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(s.app.In, 1<<10)).ReadString('\n')
		if err != nil {
			line = ""
		}
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	return answers
}

// verify asks every host whether it holds the change.
func (s *setting) verify(ctx context.Context) error {
	for _, e := range s.changing() {
		if err := e.client.Verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// confirm keeps the change over new connections to all hosts. They stand before
// the first host is told, so that both keep it or none. The far host is told
// first: this machine can be told in any case, unless this process is killed in
// between, for which a note is kept.
func (s *setting) confirm(ctx context.Context) error {
	var fresh []*session.Client
	defer func() {
		for _, c := range fresh {
			s.app.hangUp(c)
		}
	}()
	changed := s.changing()
	for _, e := range changed {
		c, err := s.app.openSession(ctx, e.host, e.dial)
		if err != nil {
			return s.back(ctx, fmt.Errorf("no new connection: %w", err), "")
		}
		fresh = append(fresh, c)
	}
	done, err := s.noteHalf()
	if err != nil {
		return s.back(ctx, err, "")
	}
	defer done()
	for i, e := range changed {
		if err := fresh[i].Confirm(ctx, e.transaction); err != nil {
			s.revert(ctx, changed[:i], fresh)
			s.unconfirm(ctx, e)
			return s.back(ctx, err, "")
		}
		e.applied = false // nothing that the session's end would undo
	}
	s.outcome = outcomeConfirmed
	switch {
	case len(changed) > 1:
		s.reason = "it stays until the machines restart; linerate undo, and linerate undo HOST, take it back"
	case changed[0].host == model.Far:
		s.reason = "it stays until the machine restarts; linerate undo HOST takes it back"
	default:
		s.reason = "it stays until the machine restarts; linerate undo takes it back"
	}
	return nil
}

// revert takes back what was confirmed on the first hosts, because another one
// failed: this change, and nothing that was confirmed before it.
func (s *setting) revert(ctx context.Context, confirmed []*setEnd, fresh []*session.Client) {
	ctx = context.WithoutCancel(ctx)
	for i, e := range confirmed {
		c := fresh[i]
		s.app.hangUp(e.client) // its watchdog has the journal
		changes, err := c.Revert(ctx, e.transaction)
		if err != nil {
			s.app.talk("linerate: %v", err)
		}
		if err == nil || len(changes) > 0 {
			e.changes = changes
		}
	}
}

// unconfirm takes back a change on a host that did not answer as it should when it
// was told to keep it: it may have heard.
func (s *setting) unconfirm(ctx context.Context, e *setEnd) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	changes, err := e.client.Undo(ctx)
	if err == nil && len(changes) > 0 { // it had not
		e.applied, e.changes = false, changes
		return
	}
	s.app.hangUp(e.client) // its watchdog has the journal
	c, err := s.app.openSession(ctx, e.host, e.dial)
	if err != nil {
		return // back tells what is left
	}
	defer s.app.hangUp(c)
	if changes, err = c.Revert(ctx, e.transaction); err != nil {
		s.app.talk("linerate: %v", err)
	}
	if len(changes) > 0 {
		e.applied, e.changes = false, changes
	}
}

// undoTime bounds how long taking back may take on one host.
const undoTime = time.Minute

// back takes back what is applied on all hosts, the last one first, and says why.
func (s *setting) back(ctx context.Context, cause error, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(len(s.ends))*undoTime)
	defer cancel()
	for _, e := range slices.Backward(s.sequence) {
		if e.applied {
			e.undo(ctx, s.app)
		}
	}
	s.outcome, s.reason = outcomeUndone, reason
	if cause != nil {
		s.reason = strings.ReplaceAll(cause.Error(), "\n", "; ")
	}
	var left []string
	for _, e := range s.ends {
		left = append(left, notUndone(e.changes)...)
	}
	if len(left) > 0 {
		s.outcome = outcomeOpen
		return errors.Join(cause, &app.Fault{Kind: app.NotUndone, Err: fmt.Errorf("not undone: %s", strings.Join(left, "; ")), Hint: "run linerate undo on that host"})
	}
	if cause == nil {
		return nil
	}
	return &app.Fault{Kind: kindOf(cause), Err: fmt.Errorf("%w: all settings are back", cause), Hint: hintOf(cause)}
}

// undo takes back what is applied on a host. Where the session is lost the host
// does it by itself, and a new one tells what became of it.
func (e *setEnd) undo(ctx context.Context, a *console) {
	e.applied = false
	changes, err := e.client.Undo(ctx)
	if err == nil {
		if len(changes) > 0 {
			e.changes = changes
		}
		return
	}
	a.talk("linerate: %v", err)
	values, err := e.readAgain(ctx, a)
	for i, c := range e.changes {
		if err != nil {
			e.changes[i].Detail = fmt.Sprintf("%v; its watchdog takes it back by itself", err)
			continue
		}
		e.changes[i] = settled(c, values[c.Knob])
	}
}

// readAgain reads a host over a new session, when what its agent left is undone.
func (e *setEnd) readAgain(ctx context.Context, a *console) (map[model.KnobID]fact.Of[string], error) {
	c, err := a.openSession(ctx, e.host, e.dial)
	if err != nil {
		return nil, err
	}
	defer a.hangUp(c)
	to := e.peer
	if e.facts.Route != nil {
		to = e.facts.Route.Peer
	}
	f, err := c.Facts(ctx, to)
	return f.Knobs, err
}
