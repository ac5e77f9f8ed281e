package watchdog

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
)

// operation changes one or two hosts. Its steps are all operations of its processes.
type operation struct {
	name   string
	far    bool            // uses two machines
	ready  func(w *world)  // prepares the state before
	run    func(w *world)  // starts it
	roles  []string        // roles whose steps count
	sets   map[slot]string // what it writes
	link   bool            // it changes a link
	older  map[slot]string // confirmed before; must stay
	boot   bool            // begins after a restart of the machine
	once   bool            // one process that undoes, and reports if it could not
	undoes bool            // reverts confirmed changes
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

// agent is a process that changes its machine through f.
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

// apply makes changes through a client and checks its report against the machine.
func (p *proc) apply(ctx context.Context, c *Client, changes []model.Assignment) bool {
	made, err := c.Apply(ctx, changes, limit)
	p.m.truthful(p.role+": apply", made, err)
	return err == nil
}

func (p *proc) undo(ctx context.Context, c *Client) {
	changes, err := c.Undo(ctx)
	p.m.truthful(p.role+": undo", changes, err)
}

// hang blocks until the process is killed.
func (p *proc) hang() { <-p.gone }

// confirmer is a process that confirms c's transaction after a delay.
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

// recoverer is an agent that starts and recovers.
func (m *sim) recoverer(role string, await time.Duration) *proc {
	return m.run(role, func(p *proc) error {
		cfg := p.config()
		cfg.Await = await
		changes, err := Recover(context.Background(), cfg)
		m.truthful(role, changes, err)
		return err
	})
}

// kept applies and confirms changes before the operation.
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

// crashed applies changes and then kills the processes that made them.
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

// forget restarts the count of steps.
func (w *world) forget() {
	pause(time.Second) // so that transaction names differ
	for _, m := range w.all {
		clear(m.count)
		clear(m.written)
	}
}

func operations() []operation {
	single := func(f func(ctx context.Context, p *proc, c *Client)) func(w *world) {
		return func(w *world) { w.first = w.all[0].agent(f) }
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

// setBoth is a controller that changes two machines, both or neither.
func setBoth(w *world) {
	w.first = w.all[0].agent(func(ctx context.Context, p *proc, c *Client) {
		other := w.all[1].agentOf(p, func(ctx context.Context, p *proc, c *Client) bool { return p.apply(ctx, c, twoKnobs) })
		if !p.apply(ctx, c, twoKnobs) {
			return // the other agent ends with this one
		}
		other.ask <- struct{}{}
		if <-other.ok {
			time.Sleep(time.Second) // keep the changes for a while
		}
		p.undo(ctx, c)
	})
}

// remote2 is an agent that a controller asks once and that ends with the controller.
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
	go func() { // report a broken connection
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
