package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
)

// machine is a host with its journal: both a live watchdog and recovery use it to undo.
type machine struct {
	host   hostknob.Host
	j      *journal.Journal
	sys    *system
	origin journal.Origin
	after  func(step string)
	boot   boot
	of     int                                                                    // number of places at the start of the stuck undo; 0 for none
	gone   <-chan struct{}                                                        // closed when the caller of a command has gone; nil for never
	keeps  func(id model.KnobID, p hostknob.Place, now string) (kept, there bool) // see Config.Keeps
}

func newMachine(cfg Config, j *journal.Journal) *machine {
	sys := cfg.system()
	m := &machine{host: cfg.Host, j: j, sys: sys, origin: sys.origin(), after: cfg.After}
	m.host.Held = make(hostknob.Held)
	if m.keeps = cfg.Keeps; m.keeps == nil {
		m.keeps = func(model.KnobID, hostknob.Place, string) (kept, there bool) { return false, false }
	}
	if m.after == nil {
		m.after = func(string) {}
	}
	m.boot = newBoot(cfg, filepath.Dir(j.Path()), m.after)
	return m
}

// record appends r with the present time, then calls the test's hook.
func (m *machine) record(r journal.Record, step string) error {
	r.Time = m.sys.now().UTC()
	if err := m.j.Append(r); err != nil {
		return err
	}
	m.after(step)
	return nil
}

// recover undoes what another process left. See Recover.
func (m *machine) recover(ctx context.Context) ([]model.Change, error) {
	return m.takeBack(ctx, func(journal.Unfinished) bool { return false })
}

// undoOpen undoes all open intents of this machine in this network namespace.
func (m *machine) undoOpen(ctx context.Context) ([]model.Change, error) {
	return m.undoThese(ctx, slices.DeleteFunc(m.j.OpenIntents(), m.elsewhere))
}

// undoThese undoes intents, and notes what is left for other processes.
func (m *machine) undoThese(ctx context.Context, all []journal.Unfinished) ([]model.Change, error) {
	changes, err := m.undo(ctx, all)
	if !m.j.Closed() {
		_ = m.j.DropConfirmation() // one that stays names a transaction that is no longer open
	}
	m.tell(err)
	m.disarm(ctx)
	return changes, err
}

// takeConfirmation records a confirmation that is on disk and returns the transaction that it
// keeps; "" for none. If the record cannot be written, or the confirmation cannot be read,
// the change will be rolled back. The confirmation is removed once its record is on disk:
// Confirm waits for that.
func (m *machine) takeConfirmation() string {
	id, err := m.j.Confirmation()
	if err != nil || id == "" {
		return ""
	}
	m.after("see confirmation")
	kept := ""
	if journal.StateOf(m.j.Records(), id) == journal.Pending { // all of it is in place
		if m.record(journal.Record{Kind: journal.KindConfirmed, Transaction: id}, "confirmed") != nil {
			return "" // tried again until the deadline
		}
		kept = id
		for p := range m.host.Held {
			m.host.Release(p)
		}
	}
	_ = m.j.DropConfirmation() // one that stays names a transaction that is no longer open
	m.after("drop confirmation")
	return kept
}

func (m *machine) elsewhere(o journal.Unfinished) bool {
	return o.Origin.SameBoot(m.origin) && !o.Origin.SameNamespace(m.origin)
}

// undo undoes the intents of each place, starting with the place written last, and closes the
// transactions that are then over. It returns one change for each knob. A change that could
// not be undone is ChangeFailed, part of the error (StuckError), and stays open in the
// journal for another try. A journal that takes no records (a full disk) does not keep a knob
// from getting its old value: a later recovery would find out what the record says.
func (m *machine) undo(ctx context.Context, open []journal.Unfinished) ([]model.Change, error) {
	ctx = context.WithoutCancel(ctx)
	var changes []model.Change
	var errs []error
	groups := byPlaceNewestFirst(open)
	left := &StuckError{Of: len(groups)}
	for _, group := range groups {
		o, err := m.undoPlace(ctx, group)
		changes = append(changes, changesOf(group, o)...)
		if err != nil {
			left.Reasons = append(left.Reasons, err)
			continue // stays open
		}
		kind := map[model.ChangeState]journal.Kind{
			model.ChangeUndone: journal.KindUndone, model.ChangeForeign: journal.KindForeign,
		}[o.state]
		kind = cmp.Or(kind, journal.KindFailed)
		m.host.Release(group[0].Place)
		for _, u := range slices.Backward(group) {
			r := journal.Record{Kind: kind, Transaction: u.Transaction, Number: u.Number, Detail: o.detail}
			if err := m.record(r, fmt.Sprintf("%s %s", kind, u.Knob)); err != nil {
				errs = append(errs, fmt.Errorf("%s was undone, its record was not written: %w", u.Knob, err))
				break // a later change with an unknown end must not stay without those below it
			}
		}
	}
	if left.Open = len(left.Reasons); left.Open > 0 {
		errs = append(errs, left)
	}
	return changes, errors.Join(append(errs, m.closeOver(open))...)
}

// closeOver closes the transactions of undone that have no intent left.
func (m *machine) closeOver(undone []journal.Unfinished) error {
	var ids []string
	for _, o := range undone {
		ids = lists.Once(ids, o.Transaction)
	}
	left := append(m.j.OpenIntents(), m.j.ConfirmedIntents()...)
	for _, id := range ids {
		if slices.ContainsFunc(left, func(o journal.Unfinished) bool { return o.Transaction == id }) {
			continue
		}
		if err := m.record(journal.Record{Kind: journal.KindClosed, Transaction: id}, "closed"); err != nil {
			return err
		}
	}
	return m.j.Tidy()
}

// outcome is the outcome of undoing a place.
type outcome struct {
	state  model.ChangeState
	detail string
	kept   string // present value, if a reboot brought the value that linerate keeps instead of the old text
}

// undoPlace is compare-and-restore of one place: it writes the old text only if the place
// holds a text that the intents wrote. An error means that the outcome is still open.
func (m *machine) undoPlace(ctx context.Context, group []journal.Unfinished) (outcome, error) {
	if isCommand(group[0]) {
		state, detail, err := m.undoCommand(ctx, group)
		return outcome{state: state, detail: detail}, err
	}
	group, between := chain(group)
	first, last := group[0], group[len(group)-1]
	id := last.Knob
	if refused, err := m.refuse(group); refused != "" {
		return outcome{state: model.ChangeFailed, detail: refused}, err
	}
	place, moved, err := m.find(last)
	switch {
	case errors.Is(err, errOther):
		return outcome{state: model.ChangeForeign, detail: err.Error()}, nil
	case err != nil:
		return outcome{state: model.ChangeFailed, detail: err.Error()}, fmt.Errorf("undo %s (%s): %w", id, last.Place, err)
	}
	between = join(moved, between)
	now, err := m.host.ReadRaw(ctx, id, place)
	if errors.Is(err, fs.ErrNotExist) {
		if err := m.sameName(last, place); err != nil {
			return outcome{state: model.ChangeFailed, detail: err.Error()}, err
		}
	}
	restarted := place.Volatile() && !first.Origin.SameBoot(m.origin)
	if errors.Is(err, fs.ErrNotExist) && restarted {
		return outcome{state: model.ChangeUndone, detail: model.DetailForgotten}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return outcome{state: model.ChangeFailed, detail: err.Error()}, nil // nothing is left to undo
	}
	if err != nil {
		return outcome{state: model.ChangeFailed, detail: err.Error()}, err
	}
	m.after("look " + string(id))
	if err := m.sameName(last, place); err != nil {
		return outcome{state: model.ChangeFailed, detail: err.Error()}, err
	}
	group = standing(group, now)
	kept, there := false, false
	if restarted {
		kept, there = m.keeps(id, place, now)
	}
	switch {
	case knob.SameText(now) == knob.SameText(first.Old) && kept && !there: // the program that brings the interface up may run later
		return outcome{state: model.ChangeUndone, detail: join(between, "was back already: the machine was restarted; what linerate keeps is not set yet")}, nil
	case knob.SameText(now) == knob.SameText(first.Old) && restarted:
		return outcome{state: model.ChangeUndone, detail: join(between, "was back already: the machine was restarted")}, nil
	case knob.SameText(now) == knob.SameText(first.Old):
		return outcome{state: model.ChangeUndone, detail: between}, nil
	case there:
		return outcome{state: model.ChangeUndone, detail: "which linerate keeps: the machine was restarted", kept: now}, nil
	case restarted:
		return outcome{state: model.ChangeForeign, detail: fmt.Sprintf("it holds %q since the machine was restarted, which linerate did not write", knob.SameText(now))}, nil
	case !wrote(group, now):
		return outcome{state: model.ChangeForeign, detail: fmt.Sprintf("it holds %q, which linerate did not write", knob.SameText(now))}, nil
	}
	ear := m.listen()
	defer ear.close()
	err = m.host.WriteRaw(ctx, id, place, first.Old)
	ear.tell(id, place, "put back")
	if err == nil {
		m.after("restore " + string(id))
		now, err = m.readBack(ctx, id, place, first.Old)
		err = cmp.Or(err, confirm(id, place, first.Old, now), m.sameName(last, place))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return outcome{state: model.ChangeFailed, detail: err.Error()}, m.sameName(last, place)
	}
	if err != nil {
		return outcome{state: model.ChangeFailed, detail: err.Error()}, err
	}
	return outcome{state: model.ChangeUndone, detail: between}, nil
}

// sameName returns an error if the interface of an intent is no longer at place: it was
// renamed meanwhile, and its setting is neither gone nor what was read there.
func (m *machine) sameName(o journal.Unfinished, place hostknob.Place) error {
	if again, _, err := m.find(o); err != nil || again != place {
		return errors.Join(fmt.Errorf("undo %s (%s): its interface changed its name just now", o.Knob, o.Place), err)
	}
	return nil
}

// chain returns the end of group that goes back to a text that linerate found there: between
// two confirmed transactions another program may have set another value, which is then the
// one to restore. The sentence says so.
func chain(group []journal.Unfinished) (end []journal.Unfinished, between string) {
	for i := len(group) - 1; i > 0; i-- {
		if group[i].Transaction == group[i-1].Transaction || wrote(group[:i], group[i].Old) {
			continue
		}
		return group[i:], fmt.Sprintf("%q is what another program had set between two changes of linerate", group[i].Old)
	}
	return group, ""
}

// standing returns the intents of group that are in force: the newest ones may be undone
// already without a record, if the journal took none.
func standing(group []journal.Unfinished, now string) []journal.Unfinished {
	for len(group) > 1 && !wrote(group, now) {
		last := group[len(group)-1]
		if knob.SameText(last.Old) != knob.SameText(now) {
			break
		}
		group = group[:len(group)-1]
	}
	return group
}

// confirm returns an error if got, which was read back, is not what was written.
func confirm(id model.KnobID, p hostknob.Place, want, got string) error {
	if !knob.Holds(want, got) {
		return &knob.Error{Op: "read back", Knob: id, Place: p.String(), Err: fmt.Errorf("wrote %q, it holds %q", want, got)}
	}
	return nil
}

// wrote reports whether now is what the intents of group wrote last: the last one known to
// have been written, or one after it, whose record a crash may have prevented. A value
// written before those is gone; if it is there again, another program has set it. If a crash
// came before the value was read back, what the system adds to a text is unknown. So is the
// speed of a forced link that is down, when a host most needs its old mode.
func wrote(group []journal.Unfinished, now string) bool {
	last := 0
	for i, o := range group {
		if len(o.Wrote) > 1 { // also read back
			last = i
		}
	}
	return slices.ContainsFunc(group[last:], func(o journal.Unfinished) bool {
		if len(o.Wrote) == 1 && knob.Holds(o.Wrote[0], now) {
			return true
		}
		return slices.ContainsFunc(o.Wrote, func(w string) bool {
			return len(o.Wrote) > 1 && knob.SameText(w) == knob.SameText(now) || knob.ModeUntold(w, now)
		})
	})
}

// byPlaceNewestFirst groups intents by place, oldest first in each group, and puts the group
// with the newest intent first.
func byPlaceNewestFirst(open []journal.Unfinished) [][]journal.Unfinished {
	type where struct {
		place hostknob.Place
		link  string // two interfaces may have had one name in turn
		undo  string // so may two commands
	}
	var places []where
	groups := make(map[where][]journal.Unfinished)
	for _, o := range slices.Backward(open) {
		w := where{place: o.Place}
		if o.Link != nil {
			w.link = o.Link.Key()
		}
		if isCommand(o) {
			w.undo = o.Old
		}
		if groups[w] == nil {
			places = append(places, w)
		}
		groups[w] = append(groups[w], o)
	}
	ordered := make([][]journal.Unfinished, len(places))
	for i, p := range places {
		slices.Reverse(groups[p])
		ordered[i] = groups[p]
	}
	return ordered
}

// changesOf returns one change for each knob of group, newest first, each with the text
// written last.
func changesOf(group []journal.Unfinished, o outcome) []model.Change {
	var changes []model.Change
	end, _ := chain(group)
	for _, u := range slices.Backward(group) {
		u.Old = cmp.Or(o.kept, end[0].Old) // the text that all of them restore
		if !slices.ContainsFunc(changes, func(c model.Change) bool { return c.Knob == u.Knob }) {
			changes = append(changes, change(u, o.state, o.detail))
		}
	}
	return changes
}

func change(o journal.Unfinished, s model.ChangeState, detail string) model.Change {
	return model.Change{
		Host: o.Host, Knob: o.Knob, Native: o.Place.String(), Old: o.Old, New: o.New, State: s, Detail: detail,
	}
}
