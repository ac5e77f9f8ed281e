package change

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// carryOut changes the hosts, and keeps the change or undoes it. The error says why it was
// not kept; having no terminal to ask on is not an error.
func (c *change) carryOut(ctx context.Context) error {
	if err := c.ask(ctx, 0, func(e *end, r []probe.Result) { e.before = r }); err != nil {
		c.outcome, c.reason = Undone, "nothing was changed"
		return err
	}
	for _, e := range c.ends {
		c.Observe(app.Watching{Host: e.Name, Answers: e.before, Risky: c.risky()})
	}
	c.tryTransfer(ctx)
	if err := c.apply(ctx); err != nil {
		return c.back(ctx, hinted(err), "")
	}
	for _, e := range c.ends {
		c.Observe(app.Changed{Host: e.Name, System: e.Facts.OS, Changes: e.changes})
	}
	if err := c.prove(ctx); err != nil {
		return c.back(ctx, err, "")
	}
	for _, e := range c.changing() { // the time to decide begins now, on all hosts
		if err := e.Client.Extend(ctx, c.Within); err != nil {
			return c.back(ctx, err, "")
		}
	}
	return c.decide(ctx)
}

// provingTime is how long it may take to change all hosts and to prove a new MTU. No host
// rolls back before it is over, however short the time to decide, which starts after it.
const provingTime = 45 * time.Second

const (
	// answerTime is how long a canary may take: several tries.
	answerTime = 3 * time.Second
	// settleTime is how long a link may be down after a change: negotiation takes 1
	// to 10 s (knobs.md section 0, class bounce).
	settleTime = 12 * time.Second
)

// settle is how long a link may be down after this change.
func (c *change) settle() time.Duration { return min(settleTime, c.Within/2) }

// canaries returns the targets that a host checks: the gateway, the other end, and those that
// the request names.
func (e *end) canaries(more []string) []string {
	var all []string
	add := func(target string) {
		if a, err := netip.ParseAddr(target); err == nil && !a.IsLoopback() && !a.IsUnspecified() && !slices.Contains(all, target) {
			all = append(all, target)
		}
	}
	if r := e.Facts.Route; r != nil {
		add(r.Gateway.Or(""))
	}
	add(e.Peer)
	all = lists.Once(all, more...)
	return all
}

// ask probes the canaries of all hosts, if the change is risky or the request names some.
func (c *change) ask(ctx context.Context, settle time.Duration, keep func(*end, []probe.Result)) error {
	if !c.risky() && len(c.Canaries) == 0 {
		return nil
	}
	for _, e := range c.ends {
		targets := e.canaries(c.Canaries)
		if len(targets) == 0 {
			continue
		}
		answers, err := e.Client.Probe(ctx, targets, answerTime, settle)
		if err != nil {
			return err
		}
		keep(e, answers)
	}
	return nil
}

// apply changes all hosts, one after the other, and checks after each step that they are
// still reachable. On an error the caller undoes the change.
func (c *change) apply(ctx context.Context) error {
	c.sequence = c.order()
	for i, e := range c.sequence {
		e.applied = true // a failure half way is undone too
		changes, err := e.Client.Apply(ctx, slices.Clone(e.wanted), max(provingTime, c.Within))
		if err != nil {
			return err
		}
		e.changes = changes
		if err := e.Client.Verify(ctx); err != nil {
			return err
		}
		if e.transaction, err = e.Client.Pending(ctx); err != nil {
			return err
		}
		if i+1 < len(c.sequence) {
			if err := c.reachable(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchStep is how often the hosts are asked whether they still hold the change.
const watchStep = time.Second

// errStopped ends a change that its caller cancels.
var errStopped = errors.New("stopped by the user")

// decide waits until the user keeps or declines the change, a host loses it, or the time is
// up.
func (c *change) decide(ctx context.Context) error {
	type said struct {
		app.Answer
		err error
	}
	length, person := units.FormatDuration(c.Within), true
	asking, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	answers, over := make(chan said, 1), make(chan struct{})
	go func() {
		defer close(over)
		answer, err := c.Ask(asking, app.Question{Kind: app.KeepChange, Within: c.Within})
		answers <- said{answer, err}
	}()
	// Hosts are asked beside the question: one that does not answer must not keep the person's
	// answer waiting. settled ends that.
	look, leave := context.WithCancel(ctx)
	looks, looking := make(chan error, 1), false
	settled := func() {
		if leave(); looking {
			<-looks
		}
	}
	back := func(cause error, reason string) error {
		cancel()
		settled()
		<-over // the question is off the screen
		return c.back(ctx, cause, reason)
	}
	ended := func() error {
		if person {
			return back(fmt.Errorf("not confirmed within %s", length), "")
		}
		return back(nil, "held for "+length)
	}
	late := time.NewTimer(c.Within)
	defer late.Stop()
	watch := time.NewTicker(watchStep)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return back(errStopped, "")
		case <-late.C:
			return ended()
		case answer := <-answers:
			switch {
			case errors.Is(answer.err, app.ErrNoTerminal):
				person = false
				c.Observe(app.Held{Within: c.Within})
			case answer.err != nil && asking.Err() != nil: // another case reports it
			case answer.err != nil:
				return back(answer.err, "")
			case answer.Yes:
				settled()
				return c.confirm(ctx)
			default:
				return back(nil, "not confirmed")
			}
		case <-watch.C:
			if !looking {
				looking = true
				go func(ends []*end) { looks <- verify(look, ends) }(c.changing())
			}
		case err := <-looks:
			looking = false
			switch {
			case err == nil || ctx.Err() != nil:
			case errors.Is(err, session.ErrExpired): // the hosts started their clocks before this process
				return ended()
			default:
				return back(err, "")
			}
		}
	}
}

// verify asks hosts whether they still hold the change.
func verify(ctx context.Context, ends []*end) error {
	for _, e := range ends {
		if err := e.Client.Verify(ctx); err != nil {
			return err
		}
	}
	return nil
}

// confirm keeps the change over new connections to all hosts. All are open before the first
// host is asked to confirm, so that both hosts keep it or neither does. The far host confirms
// first: this machine can always confirm after it, unless this process is killed in between,
// for which there is the pair note.
func (c *change) confirm(ctx context.Context) error {
	var fresh []*session.Client
	defer func() {
		for _, f := range fresh {
			c.HangUp(f)
		}
	}()
	changed := c.changing()
	for _, e := range changed {
		f, err := c.Again(ctx, e.Host)
		if err != nil {
			return c.back(ctx, fmt.Errorf("no new connection: %w", err), "")
		}
		fresh = append(fresh, f)
	}
	done, err := c.notePairNote()
	if err != nil {
		return c.back(ctx, err, "")
	}
	defer done()
	for i, e := range changed {
		if err := fresh[i].Confirm(ctx, e.transaction); err != nil {
			c.revert(ctx, changed[:i], fresh)
			c.unconfirm(ctx, e)
			return c.back(ctx, err, "")
		}
		e.applied = false // the end of the session has nothing to undo
	}
	c.outcome = Confirmed
	switch {
	case len(changed) > 1:
		c.reason = "it stays until the machines restart; linerate undo, and linerate undo HOST, take it back"
	case changed[0].Side == model.Far:
		c.reason = "it stays until the machine restarts; linerate undo HOST takes it back"
	default:
		c.reason = "it stays until the machine restarts; linerate undo takes it back"
	}
	return nil
}

// revert undoes this change, and no earlier one, on the first hosts, which confirmed it
// before another host failed.
func (c *change) revert(ctx context.Context, confirmed []*end, fresh []*session.Client) {
	ctx = context.WithoutCancel(ctx)
	for i, e := range confirmed {
		c.HangUp(e.Client) // its watchdog has the journal
		changes, err := fresh[i].Revert(ctx, e.transaction)
		if err != nil {
			c.Observe(app.Trouble{Err: err})
		}
		if err == nil || len(changes) > 0 {
			e.changes = changes
		}
	}
}

// unconfirm undoes a change on a host whose answer to the confirmation was missing or wrong:
// the host may have kept it.
func (c *change) unconfirm(ctx context.Context, e *end) {
	ctx = context.WithoutCancel(ctx) // each session knows how long its undo may take
	changes, err := e.Client.Undo(ctx)
	if err == nil && len(changes) > 0 { // the confirmation had not arrived
		e.applied, e.changes = false, changes
		return
	}
	c.HangUp(e.Client) // its watchdog has the journal
	f, err := c.Again(ctx, e.Host)
	if err != nil {
		return // back reports what is left
	}
	defer c.HangUp(f)
	if changes, err = f.Revert(ctx, e.transaction); err != nil {
		c.Observe(app.Trouble{Err: err})
	}
	if len(changes) > 0 {
		e.applied, e.changes = false, changes
	}
}

// back undoes the change on all hosts, the last one first, and gives the reason.
func (c *change) back(ctx context.Context, cause error, reason string) error {
	ctx = context.WithoutCancel(ctx)
	for _, e := range slices.Backward(c.sequence) {
		if e.applied {
			c.undo(ctx, e)
		}
	}
	c.outcome, c.reason = Undone, reason
	if cause != nil {
		c.reason = strings.ReplaceAll(cause.Error(), "\n", "; ")
	}
	var changes []model.Change
	for _, e := range c.ends {
		changes = append(changes, e.changes...)
	}
	if left := app.StillChanged(changes); len(left) > 0 {
		c.outcome = StillOpen
		return errors.Join(cause, &fault.Error{Kind: fault.NotUndone, Err: fmt.Errorf("not undone: %s", strings.Join(left, "; ")), Hint: "run linerate undo on that host"})
	}
	if cause == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", cause, app.Returned(changes))
}

// undo undoes the change on a host. If the session is lost, the host does it by itself, and a
// new session reads the outcome.
func (c *change) undo(ctx context.Context, e *end) {
	e.applied = false
	changes, err := e.Client.Undo(ctx)
	if err == nil {
		if len(changes) > 0 {
			e.changes = changes
		}
		return
	}
	c.Observe(app.Trouble{Err: err})
	values, err := c.readAgain(ctx, e)
	for i, one := range e.changes {
		if err != nil {
			e.changes[i].Detail = fmt.Sprintf("%v; its watchdog takes it back by itself", err)
			continue
		}
		e.changes[i] = c.Settle(one, e.Facts.OS, values[one.Knob])
	}
}

// readAgain reads a host over a new session, after the host has undone its agent's changes.
func (c *change) readAgain(ctx context.Context, e *end) (map[model.KnobID]fact.Of[string], error) {
	f, err := c.Again(ctx, e.Host)
	if err != nil {
		return nil, err
	}
	defer c.HangUp(f)
	to := e.Peer
	if e.Facts.Route != nil {
		to = e.Facts.Route.Peer
	}
	facts, err := f.Facts(ctx, to)
	return facts.Knobs, err
}
