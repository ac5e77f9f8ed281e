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

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
)

// operation changes a host, or two. Its steps are all that its processes do.
type operation struct {
	name   string
	far    bool            // on two machines
	ready  func(w *world)  // what was before
	run    func(w *world)  // starts it
	roles  []string        // whose steps count
	sets   map[slot]string // what it writes
	link   bool            // it changes a link
	older  map[slot]string // what was confirmed before, and stays
	boot   bool            // it begins after a restart of the machine
	once   bool            // it is one process that undoes, and says so where it could not
	undoes bool            // it takes back what is confirmed
}

const limit = 10 * time.Second // deadline of all changes

func near(knobs ...string) []model.Assignment {
	var all []model.Assignment
	for pair := range slices.Chunk(knobs, 2) {
		all = append(all, model.Assignment{Host: model.Near, Knob: model.KnobID(pair[0]), Value: pair[1]})
	}
	return all
}

var (
	sackSlot, stampSlot, rmemSlot, mtuSlot = slot{0, sack.Native}, slot{0, stamps.Native}, slot{0, rmem.Native}, slot{2, "mtu"}
	twoKnobs                               = near("tcp.sack", "0", "tcp.recv_buffer_max", "64KiB")
	twoSlots                               = map[slot]string{sackSlot: "0", rmemSlot: "4096 65536 65536"}
)

// agent is a process that changes its machine by f.
func (m *sim) agent(f func(ctx context.Context, p *proc, c *Client)) *proc {
	return m.run("agent", func(p *proc) error {
		ctx := context.Background()
		c, err := Start(ctx, p.config())
		if err != nil {
			return err
		}
		f(ctx, p, c)
		return c.Close()
	})
}

// apply has a client make changes, and holds its report against the machine.
func (p *proc) apply(ctx context.Context, c *Client, changes []model.Assignment) bool {
	made, err := c.Apply(ctx, changes, limit)
	p.m.truthful(p.role+": apply", made, err)
	return err == nil
}

func (p *proc) undo(ctx context.Context, c *Client) {
	changes, err := c.Undo(ctx)
	p.m.truthful(p.role+": undo", changes, err)
}

// hang waits until somebody kills the process.
func (p *proc) hang() { <-p.gone }

// others is a process that only looks at the machine for a moment: a confirmation, an undo.
func (m *sim) confirmer(after time.Duration, c *Client) *proc {
	return m.run("confirmer", func(p *proc) error {
		time.Sleep(after)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		id := c.Transaction()
		err := Confirm(ctx, p.config(), id)
		if records, _ := m.state(); err == nil && journal.StateOf(records, id) != journal.Confirmed && m.refuse["undone since"] == nil {
			m.w.errorf("confirm says that %s is kept, the journal does not", id)
		}
		return err
	})
}

// reverter is linerate undo.
func (m *sim) reverter(role string) *proc {
	return m.run(role, func(p *proc) error {
		changes, err := Revert(context.Background(), p.config())
		m.truthful(role, changes, err)
		return err
	})
}

// recoverer is an agent that starts.
func (m *sim) recoverer(role string, await time.Duration) *proc {
	return m.run(role, func(p *proc) error {
		cfg := p.config()
		cfg.Await = await
		changes, err := Recover(context.Background(), cfg)
		m.truthful(role, changes, err)
		return err
	})
}

// kept has a change made and confirmed before the operation.
func (w *world) kept(changes []model.Assignment) {
	before := 0
	for _, m := range w.all {
		records, _ := m.state()
		before = len(journal.ConfirmedIntents(records))
		m.agent(func(ctx context.Context, p *proc, c *Client) {
			if !p.apply(ctx, c, changes) {
				w.errorf("prepare failed")
			}
			if p := m.confirmer(0, c); true {
				<-p.done
			}
		})
	}
	pause(time.Second)
	for _, m := range w.all {
		if records, _ := m.state(); len(journal.ConfirmedIntents(records)) != before+len(changes) {
			w.errorf("nothing was confirmed before: %+v", records)
		}
	}
	w.forget()
}

// crashed has a change made by processes that are killed then.
func (w *world) crashed() {
	for _, m := range w.all {
		m.agent(func(ctx context.Context, p *proc, c *Client) {
			p.apply(ctx, c, twoKnobs)
			p.hang()
		})
	}
	pause(time.Second)
	kill(w.everybody()...)
	synctest.Wait()
	w.forget()
}

// forget has the steps count from here.
func (w *world) forget() {
	pause(time.Second) // the names of transactions differ
	for _, m := range w.all {
		clear(m.count)
		clear(m.written)
	}
}

func operations() []operation {
	single := func(f func(ctx context.Context, p *proc, c *Client)) func(w *world) {
		return func(w *world) {
			w.first = w.all[0].agent(f)
		}
	}
	older := near("tcp.sack", "0", "tcp.timestamps", "0")
	olderSlots := map[slot]string{sackSlot: "0", stampSlot: "0"}
	over := near("tcp.sack", "1", "tcp.recv_buffer_max", "64KiB")
	overSlots := map[slot]string{sackSlot: "1", rmemSlot: "4096 65536 65536"}
	setAndUndo := func(changes []model.Assignment) func(w *world) {
		return single(func(ctx context.Context, p *proc, c *Client) {
			if p.apply(ctx, c, changes) {
				p.undo(ctx, c)
			}
		})
	}
	setAndKeep := func(changes []model.Assignment) func(w *world) {
		return single(func(ctx context.Context, p *proc, c *Client) {
			if p.apply(ctx, c, changes) {
				<-p.m.confirmer(50*time.Millisecond, c).done
			}
		})
	}
	agent := []string{"watchdog", "agent"}
	return []operation{
		{name: "set", run: setAndUndo(twoKnobs), roles: agent, sets: twoSlots},
		{name: "set and the deadline", run: single(func(ctx context.Context, p *proc, c *Client) {
			if p.apply(ctx, c, twoKnobs) {
				time.Sleep(limit + 10*time.Second)
				p.undo(ctx, c)
			}
		}), roles: agent, sets: twoSlots},
		{name: "set twice", run: single(func(ctx context.Context, p *proc, c *Client) {
			if p.apply(ctx, c, near("tcp.sack", "0", "tcp.recv_buffer_max", "256KiB")) && p.apply(ctx, c, near("tcp.recv_buffer_max", "64KiB")) {
				p.undo(ctx, c)
			}
		}), roles: agent, sets: twoSlots},
		{name: "set both", far: true, run: setBoth, roles: []string{"watchdog", "agent"}, sets: twoSlots},
		{name: "keep", run: setAndKeep(twoKnobs), roles: append(agent, "confirmer"), sets: twoSlots},
		{name: "set over an older change", ready: func(w *world) { w.kept(older) }, run: setAndUndo(over), roles: agent, sets: overSlots, older: olderSlots},
		{name: "keep over an older change", ready: func(w *world) { w.kept(older) }, run: setAndKeep(over), roles: append(agent, "confirmer"), sets: overSlots, older: olderSlots},
		{name: "undo", ready: func(w *world) { w.kept(twoKnobs) }, run: func(w *world) { w.first = w.all[0].reverter("undo") }, roles: []string{"undo"}, once: true, undoes: true, sets: twoSlots},
		{name: "undo of two changes", ready: func(w *world) { w.kept(older); w.kept(over) }, run: func(w *world) { w.first = w.all[0].reverter("undo") }, roles: []string{"undo"}, once: true, undoes: true,
			sets: map[slot]string{sackSlot: "0", stampSlot: "0", rmemSlot: "4096 65536 65536"}},
		{name: "recovery by a second process", ready: (*world).crashed, run: func(w *world) { w.first = w.all[0].recoverer("recovery", 0) }, roles: []string{"recovery"}, once: true, sets: twoSlots},
		{name: "recovery by the next watchdog", ready: (*world).crashed, run: setAndUndo(near("tcp.timestamps", "0")), roles: agent, once: true,
			sets: map[slot]string{sackSlot: "0", stampSlot: "0", rmemSlot: "4096 65536 65536"}},
		{name: "recovery at boot", ready: func(w *world) { w.crashed(); w.all[0].restart(false) }, run: func(w *world) { w.first = w.all[0].recoverer("recovery", time.Second) },
			roles: []string{"recovery"}, once: true, sets: twoSlots, boot: true},
		{name: "set of a link", run: setAndUndo(near("link.mtu", "1400", "tcp.sack", "0")), roles: agent, link: true,
			sets: map[slot]string{sackSlot: "0", mtuSlot: "1400"}},
	}
}

// setBoth is a controller that changes two machines: both, or none.
func setBoth(w *world) {
	w.first = w.all[0].agent(func(ctx context.Context, p *proc, c *Client) {
		other := w.all[1].agentOf(p, func(ctx context.Context, p *proc, c *Client) bool { return p.apply(ctx, c, twoKnobs) })
		if !p.apply(ctx, c, twoKnobs) {
			return // the other one ends with this one
		}
		other.ask <- struct{}{}
		if <-other.ok {
			time.Sleep(time.Second) // it is held
		}
		p.undo(ctx, c)
	})
}

// remote is an agent that a controller asks once, and that ends with it.
type remote2 struct {
	ask chan struct{}
	ok  chan bool
}

func (m *sim) agentOf(controller *proc, f func(ctx context.Context, p *proc, c *Client) bool) remote2 {
	r := remote2{make(chan struct{}, 1), make(chan bool, 1)}
	over := make(chan struct{})
	controller.ends = append(controller.ends, func() { close(over) })
	a := m.agent(func(ctx context.Context, p *proc, c *Client) {
		select {
		case <-r.ask:
			r.ok <- f(ctx, p, c)
		case <-over:
		case <-p.gone:
		}
		select {
		case <-over:
		case <-p.gone:
		}
		p.undo(ctx, c)
	})
	go func() { // a connection that breaks is told
		select {
		case <-a.done:
		case <-a.gone:
		}
		select {
		case r.ok <- false:
		default:
		}
	}()
	return r
}

// truthful holds a report against the machine.
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

// check demands, when the operation is over or its deadline has passed, what the proof promises.
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

// expect demands old values, or those of a change that is confirmed.
func (m *sim) expect(o operation, f *fault, when string) {
	want := defaults()
	if f.defaults != nil {
		want = f.defaults
	}
	records, _ := m.state()
	kept := journal.ConfirmedIntents(records)
	switch {
	case o.undoes: // what it puts back stays so, also where no disk takes a record of it
		kept = nil
	case m.unsure() && m.values[rmemSlot] == want[rmemSlot]: // all of it went back
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
		old := 0
		for _, k := range kept {
			if at := m.slotOf(k); o.older[at] == k.New && k.Old == defaults()[at] {
				old++
			}
		}
		if old != n {
			m.w.errorf("%s: %d settings of %d of the older change are kept on %s", when, old, n, m.name)
		}
	}
}

func (m *sim) slotOf(o journal.Unfinished) slot {
	at, _ := m.slot(o.Place)
	return at
}

// unsure reports whether a confirmation was asked for, and not said to be kept: what is
// on disk of it may count or not.
func (m *sim) unsure() bool {
	return slices.ContainsFunc(m.procs, func(p *proc) bool { return p.role == "confirmer" && p.err != nil })
}

// hold demands values, but where somebody else has set another.
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

// finish is linerate undo, twice.
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

// dry returns the moments of an operation at which a fault may come.
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
				if len(sites) < 10 {
					t.Fatalf("%d steps", len(sites))
				}
				cases := 0
				for _, f := range faults() {
					if f.fits != nil && !f.fits(o) {
						continue
					}
					for i, s := range sites {
						if wrong.Load() { // the first fault says enough
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

// run is one case.
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
			synctest.Wait() // all others stand still
			f.inject(w, f, p, o)
		}
		o.run(w)
		w.check(o, &g)
		if !g.happened {
			w.errorf("the step did not come")
		}
	})
}
