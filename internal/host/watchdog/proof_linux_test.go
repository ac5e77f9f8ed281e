package watchdog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// truthful checks a report against the machine.
func (m *sim) truthful(who string, changes []model.Change, err error) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, c := range changes {
		native, link, _ := strings.Cut(c.Native, " of ")
		at, err2 := m.slot(hostknob.Place{Native: native, Target: link})
		now, there := m.values[at]
		there = there && err2 == nil
		switch {
		case !there || m.foreign[at] != "" || m.refuse["undone since"] != nil:
		case c.State == model.ChangeUndone && now != c.Old:
			m.w.errorf("%s on %s: %s is said to be back to %q and holds %q", who, m.name, c.Knob, c.Old, now)
		case c.State == model.ChangeApplied && err == nil && now != c.New && !strings.Contains(c.Detail, "left alone"):
			m.w.errorf("%s on %s: %s is said to be %q and holds %q", who, m.name, c.Knob, c.New, now)
		}
	}
}

// check demands what the proof promises, after the operation or its deadline.
func (w *world) check(o operation, f *fault) {
	pause(limit + 45*time.Second)
	for _, m := range w.all {
		if f.orphans[m.name] = f.orphans[m.name] || o.once && w.first.err != nil; !f.orphans[m.name] {
			m.expect(o, f, "by itself")
		}
	}
	if f.after != nil {
		f.after(w)
	}
	for _, m := range w.all {
		clear(m.refuse)
	}
	pause(limit)
	for _, m := range w.all {
		if f.lifts && !f.orphans[m.name] {
			m.expect(o, f, "once it can")
		}
	}
	for _, p := range w.everybody() {
		if p.role == "watchdog" && !f.hangs {
			w.errorf("a watchdog is left on %s", p.m.name)
		}
	}
	kill(w.everybody()...)
	synctest.Wait()
	for _, m := range w.all {
		m.finish(o, f)
	}
}

// expect demands the old values, or those of confirmed changes.
func (m *sim) expect(o operation, f *fault, when string) {
	want := defaults()
	if f.defaults != nil {
		want = f.defaults
	}
	records, _ := m.state()
	kept := journal.ConfirmedIntents(records)
	switch {
	case o.undoes: // its undo is final, even if no disk records it
		kept = nil
	case m.unsure() && m.values[rmemSlot] == want[rmemSlot]: // the whole change was undone
		kept = slices.DeleteFunc(kept, func(k journal.Unfinished) bool {
			return o.older[m.slotOf(k)] != k.New || k.Old != defaults()[m.slotOf(k)]
		})
	}
	overTheirs := map[slot]bool{}
	for _, k := range kept {
		at := m.slotOf(k)
		want[at] = k.Wrote[len(k.Wrote)-1]
		overTheirs[at] = m.foreign[at] != "" && k.Old == m.foreign[at]
	}
	m.hold(want, overTheirs, f, when)
	if n := len(o.older); n > 0 && f.takesBack == "" {
		old := lists.Count(kept, func(k journal.Unfinished) bool {
			at := m.slotOf(k)
			return o.older[at] == k.New && k.Old == defaults()[at]
		})
		if old != n {
			m.w.errorf("%s: %d settings of %d of the older change are kept on %s", when, old, n, m.name)
		}
	}
}

func (m *sim) slotOf(o journal.Unfinished) slot {
	at, _ := m.slot(o.Place)
	return at
}

// unsure reports whether a confirmation was attempted without success: its trace on disk may
// or may not count.
func (m *sim) unsure() bool {
	return slices.ContainsFunc(m.procs, func(p *proc) bool { return p.role == "confirmer" && p.err != nil })
}

// hold demands values, except for settings that another program has changed.
func (m *sim) hold(want map[slot]string, overTheirs map[slot]bool, f *fault, when string) {
	for at, now := range m.values {
		text, known := want[at]
		theirs := m.foreign[at]
		if theirs != "" && !overTheirs[at] && (now == theirs || !m.unseen[at]) {
			text, known = theirs, true
		}
		if known && strings.Join(strings.Fields(now), " ") != strings.Join(strings.Fields(text), " ") && (f.stuck == nil || !f.stuck(at)) {
			m.w.errorf("%s %s holds %q in %v, want %q", when, m.name, now, at, text)
		}
	}
}

// finish runs linerate undo twice.
func (m *sim) finish(o operation, f *fault) {
	w := m.w
	u := m.reverter("last undo")
	pause(time.Minute)
	select {
	case <-u.done:
	default:
		w.errorf("undo on %s does not end", m.name)
	}
	if u.err != nil && (!f.lost || !errors.Is(u.err, journal.ErrDamaged)) {
		w.errorf("undo on %s: %v", m.name, u.err)
	}
	if f.lost && m.name == "near" && u.err == nil && len(damaged(m)) == 0 && f.mustTell {
		w.errorf("undo on %s does not tell that records are lost", m.name)
	}
	want := defaults()
	if f.defaults != nil {
		want = f.defaults
	}
	m.hold(want, nil, f, "after linerate undo")
	records, _ := m.state()
	if left := append(journal.OpenIntents(records), journal.ConfirmedIntents(records)...); len(left) > 0 {
		w.errorf("open on %s after linerate undo: %+v", m.name, left)
	}
	before := maps.Clone(m.values)
	clear(m.written)
	var again []model.Change
	v := m.run("second undo", func(p *proc) (err error) {
		again, err = Revert(context.Background(), p.config())
		return err
	})
	pause(time.Minute)
	if len(again) > 0 || v.err != nil || len(m.written) > 0 || !maps.Equal(before, m.values) {
		w.errorf("second undo on %s = %+v, %v, wrote %v", m.name, again, v.err, m.written)
	}
	allowed := []string{"journal-b.jsonl", "journal.jsonl", "lock", "retry"}
	for _, name := range m.disk.Names(stateDir) {
		if !slices.Contains(allowed, name) && (!f.lost || !strings.Contains(name, ".damaged-")) && (!f.hangs || !strings.HasPrefix(name, "confirmed.")) {
			w.errorf("left in the state directory of %s: %s", m.name, name)
		}
	}
	_ = o
}

func damaged(m *sim) []string {
	return slices.DeleteFunc(m.disk.Names(stateDir), func(n string) bool { return !strings.Contains(n, ".damaged-") })
}

// dry returns the moments of an operation at which a fault can occur.
func dry(t *testing.T, o operation) (sites []site, ops []act) {
	w := newWorld("no fault/"+o.name, o.far)
	defer w.report(t)
	synctest.Test(t, func(*testing.T) {
		if o.ready != nil {
			o.ready(w)
		}
		w.sites, w.ops = []site{}, nil
		o.run(w)
		pause(limit + 40*time.Second)
		all := w.sites
		w.sites = nil
		w.check(o, &fault{orphans: map[string]bool{}})
		for i, s := range all {
			if slices.Contains(o.roles, s.role) {
				sites, ops = append(sites, s), append(ops, w.ops[i])
			}
		}
	})
	return sites, ops
}

// TestEveryFaultAfterEveryStep is the proof of docs/faults.md: every fault at every step of
// every operation that changes a host.
func TestEveryFaultAfterEveryStep(t *testing.T) {
	began := time.Now()
	var mu sync.Mutex
	var wrong atomic.Bool
	count, total := map[string]int{}, 0
	t.Run("of", func(t *testing.T) {
		for _, o := range operations() {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				sites, acts := dry(t, o)
				must.Need(t, len(sites) >= 10, "%d steps", len(sites))
				cases := 0
				for _, f := range faults() {
					if f.fits != nil && !f.fits(o) {
						continue
					}
					for i, s := range sites {
						if wrong.Load() { // one fault is enough
							return
						}
						if f.at == nil || f.at(s, acts[i]) {
							f.run(t, o, s, acts[i])
							wrong.CompareAndSwap(false, t.Failed())
							cases++
							mu.Lock()
							count[f.name]++
							mu.Unlock()
						}
					}
				}
				t.Logf("%d cases of %d steps", cases, len(sites))
				mu.Lock()
				defer mu.Unlock()
				total += cases
			})
		}
	})
	for _, name := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%5d %s", count[name], name)
	}
	t.Logf("%d cases in %v", total, time.Since(began).Round(time.Millisecond))
}

func (w *world) report(t *testing.T) {
	for _, what := range w.wrong {
		t.Errorf("%s: %s", w.name, what)
	}
}

// run runs one case.
func (f fault) run(t *testing.T, o operation, s site, what act) {
	name := fmt.Sprintf("%s/%s/%s %s %d, before %s", o.name, f.name, s.machine, s.role, s.n, what)
	w := newWorld(name, o.far)
	defer w.report(t)
	synctest.Test(t, func(*testing.T) {
		if o.ready != nil {
			o.ready(w)
		}
		g := f
		g.orphans = map[string]bool{}
		if o.boot {
			g.defaults = maps.Clone(w.all[0].values)
		}
		w.at, w.fault, w.inject = s, &g, func(f *fault, p *proc, o act) {
			synctest.Wait() // all others are blocked
			f.inject(w, f, p, o)
		}
		o.run(w)
		w.check(o, &g)
		if !g.happened {
			w.errorf("the step did not come")
		}
	})
}
