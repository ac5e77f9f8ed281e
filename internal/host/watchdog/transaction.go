package watchdog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/linkid"
)

// transaction is everything applied since the last undo.
type transaction struct {
	m      *machine
	id     string
	number int // of the last intent
	held   []*held
}

// held is a place that the transaction has set.
type held struct {
	place  hostknob.Place
	link   *linkid.ID         // interface of the place; nil for none, or an unknown one
	old    string             // native text before the transaction
	now    string             // native text that it should hold
	values []model.Assignment // of the knobs there, in the order of their first setting
	member bool               // set because of another interface, see members
}

// step is one change, planned and not yet made.
type step struct {
	model.Assignment
	held   *held
	was    string // native text before it
	new    string
	number int  // of its intent
	again  bool // an earlier step has written the same whole text there
}

func (m *machine) begin() *transaction {
	id := m.sys.now().UTC().Format("20060102T150405.000000000") + "-" + strconv.Itoa(m.origin.PID)
	return &transaction{m: m, id: id}
}

// apply makes the changes. On an error the caller undoes the transaction. apply calls stop
// before each write, and ends early if stop returns an error.
func (t *transaction) apply(ctx context.Context, changes []model.Assignment, deadline time.Time, stop func() error) ([]model.Change, error) {
	changes, commands := apart(changes)
	steps, err := t.plan(ctx, changes)
	if err != nil {
		return nil, err
	}
	ran, err := t.planCommands(commands)
	if err != nil {
		return nil, err
	}
	steps = append(steps, ran...) // after the settings, so that they see those
	if err := t.announce(steps, deadline); err != nil {
		return nil, err
	}
	if err := t.m.boot.arm(ctx); err != nil {
		return nil, err
	}
	if err := t.unchanged(ctx, steps); err != nil {
		return nil, err
	}
	var made []model.Change
	ear := t.m.listen()
	defer ear.close()
	for _, s := range steps {
		c := model.Change{
			Host: s.Host, Knob: s.Knob, Native: s.held.place.String(), Old: s.held.old, New: s.new, State: model.ChangeApplied,
		}
		if err := errors.Join(stop(), ctx.Err()); err != nil {
			return nil, err
		}
		err := t.make(ctx, s)
		ear.tell(s.Knob, s.held.place, "set")
		if err != nil {
			return nil, err
		}
		made = append(made, c)
	}
	return made, nil
}

// plan computes every native text, in the order of the writes, and finds the faults that can
// be found without writing.
func (t *transaction) plan(ctx context.Context, changes []model.Assignment) ([]step, error) {
	now := make(map[model.KnobID]string)
	var wanted []model.Assignment
	var errs []error
	for _, c := range changes {
		k, h, err := t.hold(ctx, t.m.host, c.Knob)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.Value, err = k.Parse(c.Value)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, twice := now[c.Knob]; twice {
			errs = append(errs, fmt.Errorf("%s is set twice", c.Knob))
			continue
		}
		v, err := k.Decode(runtime.GOOS, h.now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		now[c.Knob] = v
		wanted = append(wanted, c)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := t.m.host.CheckChanges(ctx, wanted); err != nil {
		return nil, err
	}
	var steps []step
	for _, c := range t.m.host.Index.Plan(now, wanted) {
		before, after, err := t.members(ctx, c)
		if err != nil {
			return nil, err
		}
		s, err := t.planOne(t.m.host, c)
		if err != nil {
			return nil, err
		}
		steps = append(append(append(steps, before...), s), after...)
	}
	return steps, t.check(ctx, steps)
}

// check checks every text before the first is written. If one alone would be refused, such as
// a speed without the duplex that follows it, the text with all the settings of that place is
// written instead. That is always so for a link mode: each write of one takes the link down,
// and half of it may be a mode that the driver negotiates although it was to be fixed (Linux
// e1000: 1000 Mbit/s).
func (t *transaction) check(ctx context.Context, steps []step) error {
	written := map[*held]bool{}
	for i := range steps {
		s := &steps[i]
		if modeOf(s.held.place) {
			s.new, s.again, written[s.held] = s.held.now, written[s.held], true
		}
		err := t.m.host.Check(ctx, s.Knob, s.held.place, s.new)
		if err != nil && s.new != s.held.now {
			s.new = s.held.now
			err = t.m.host.Check(ctx, s.Knob, s.held.place, s.new)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// modeOf reports whether a place holds the whole mode of a link.
func modeOf(p hostknob.Place) bool {
	return p.Mechanism == knob.Ethtool && p.Native == "linkmodes.mode" || p.Mechanism == knob.IfIoctl && p.Native == "media"
}

// hold returns the knob's place on a host as the transaction knows it. It reads a place that
// the transaction does not hold yet; one that it does must hold what was written.
func (t *transaction) hold(ctx context.Context, host hostknob.Host, id model.KnobID) (knob.Knob, *held, error) {
	k, p, err := host.Place(id)
	if err != nil {
		return k, nil, err
	}
	raw, err := t.m.host.ReadRaw(ctx, id, p)
	if err != nil {
		return k, nil, err
	}
	for _, h := range t.held {
		if h.place != p {
			continue
		}
		if !knob.Holds(h.now, raw) {
			return k, nil, fmt.Errorf("%s (%s): linerate wrote %q, it holds %q: %w", id, p, h.now, raw, ErrForeign)
		}
		return k, h, nil
	}
	// the value of an unfinished change is no baseline
	for _, o := range t.m.j.OpenIntents() {
		if o.Place == p && !t.m.elsewhere(o) {
			return k, nil, fmt.Errorf("%s (%s): an earlier change is not undone yet (by process %d)", id, p, o.Origin.PID)
		}
	}
	t.m.host.Hold(p)
	h := &held{place: p, link: t.m.linkOf(id, p), old: raw, now: raw}
	t.held = append(t.held, h)
	return k, h, nil
}

// planOne computes the text of c: that of the place before the transaction, with all its
// knobs as the transaction wants them. So a level does not depend on the levels tried before
// it.
func (t *transaction) planOne(host hostknob.Host, c model.Assignment) (step, error) {
	_, p, err := host.Place(c.Knob)
	if err != nil {
		return step{}, err
	}
	h := t.held[slices.IndexFunc(t.held, func(h *held) bool { return h.place == p })]
	i := slices.IndexFunc(h.values, func(v model.Assignment) bool { return v.Knob == c.Knob })
	if i < 0 {
		h.values = append(h.values, c)
	} else {
		h.values[i] = c
	}
	raw := h.old
	for _, v := range h.values {
		k, _ := t.m.host.Index.ByID(v.Knob) // found above
		if raw, err = k.Encode(runtime.GOOS, raw, v.Value); err != nil {
			return step{}, fmt.Errorf("%s (%s): %w", v.Knob, p, err)
		}
	}
	// Write even if the place holds the text already: a setting that was switched to and one
	// that was not must not differ in anything else (statistics.md section 2).
	t.number++
	s := step{Assignment: c, held: h, was: h.now, new: raw, number: t.number}
	h.now = raw
	return s, nil
}

// announce writes every change to disk before the first is made.
func (t *transaction) announce(steps []step, deadline time.Time) error {
	for _, s := range steps {
		r := journal.Record{Kind: journal.KindIntent, Transaction: t.id, Number: s.number, Intent: &journal.Intent{
			Host: s.Host, Knob: s.Knob, Place: s.held.place, Old: s.held.old, New: s.new,
			Deadline: deadline.UTC(), Origin: t.m.origin, Link: s.held.link, Member: s.held.member, Limit: s.Command.Limit,
		}}
		if err := t.m.record(r, "intent "+string(s.Knob)); err != nil {
			return err
		}
	}
	return nil
}

// unchanged returns an error unless each place of steps holds what it held when they were
// planned: writing the journal takes time, in which another program may set a value that a
// write would lose.
func (t *transaction) unchanged(ctx context.Context, steps []step) error {
	seen := make(map[hostknob.Place]bool)
	for _, s := range steps {
		p := s.held.place
		if seen[p] || s.IsCommand() {
			continue // an earlier step writes there, or it holds no text
		}
		seen[p] = true
		raw, err := t.m.host.ReadRaw(ctx, s.Knob, p)
		if err != nil {
			return err
		}
		if !knob.Holds(s.was, raw) {
			return fmt.Errorf("%s (%s): it held %q, and now %q, before linerate wrote: %w", s.Knob, p, s.was, raw, ErrForeign)
		}
	}
	return nil
}

// make writes one change, reads it back and records it.
func (t *transaction) make(ctx context.Context, s step) error {
	if s.IsCommand() {
		return t.run(ctx, s)
	}
	m, p := t.m, s.held.place
	if err := m.stillThere(s.Knob, s.held); err != nil {
		return err
	}
	// Settings of a link may change each other, those of a file do not: a different value is
	// another program's.
	if p.Mechanism == knob.Sysctl {
		if err := t.unchanged(ctx, []step{s}); err != nil {
			return err
		}
	}
	if !s.again {
		if err := m.host.WriteRaw(ctx, s.Knob, p, s.new); err != nil {
			return err
		}
	}
	m.after("write " + string(s.Knob))
	got, err := m.readBack(ctx, s.Knob, p, s.new)
	if err != nil {
		return err
	}
	m.after("read " + string(s.Knob))
	// Recorded before it is checked: what a driver made of the value is linerate's to undo.
	r := journal.Record{Kind: journal.KindApplied, Transaction: t.id, Number: s.number, Text: got}
	if err := m.record(r, "applied "+string(s.Knob)); err != nil {
		return err
	}
	if got, err = m.host.ReadRaw(ctx, s.Knob, p); err != nil {
		return err
	}
	if err := confirm(s.Knob, p, s.new, got); err != nil {
		return err
	}
	return m.host.InForce(ctx, s.Knob, p)
}

// verify compares what the places hold with what was written.
func (t *transaction) verify(ctx context.Context) []Mismatch {
	var all []Mismatch
	for _, h := range t.held {
		for _, v := range h.values {
			got, err := t.m.host.ReadRaw(ctx, v.Knob, h.place)
			mis := Mismatch{Host: v.Host, Knob: v.Knob, Native: h.place.String(), Want: h.now, Got: got}
			if err != nil {
				mis.Reason = err.Error()
			}
			if err != nil || !knob.Holds(h.now, got) {
				all = append(all, mis)
			}
		}
	}
	return all
}
