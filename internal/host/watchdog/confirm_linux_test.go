package watchdog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// reset sets a bench's values back, as another program would.
func (b bench) reset(t *testing.T, values map[model.KnobID]string) {
	t.Helper()
	for id, raw := range values {
		_, p, err := b.host.Place(id)
		if err == nil {
			err = b.host.WriteRaw(t.Context(), id, p, raw)
		}
		must.Do(t, err)
	}
}

// confirmed has a watchdog apply and confirm changes, and stops it.
func (d *desk) confirmed(pairs ...string) {
	d.t.Helper()
	d.start(d.t.Context(), sinceBoot)
	d.apply(pairs...)
	records, _, err := d.state().Read()
	must.Need(d.t, err == nil && len(journal.OpenIntents(records)) != 0, "nothing is applied: %v", err)
	must.Do(d.t, errors.Join(Confirm(d.t.Context(), d.cfg, records[len(records)-1].Transaction), d.stop()))
}

func TestConfirmedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		between string // set by another program between the two
		last    string // and after them
		state   model.ChangeState
		holds   string
	}{
		"undisturbed":     {"", "", model.ChangeUndone, "1"},
		"foreign between": {"5", "", model.ChangeUndone, "5"},
		"foreign after":   {"", "9", model.ChangeForeign, "9"},
		"back already":    {"", "1", model.ChangeUndone, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.confirmed("tcp.sack", "0")
			d.expect(sack, "0")
			if c.between != "" {
				d.memory.Set(sack, c.between)
			}
			// A session that applies and undoes a change does not affect what was confirmed.
			d.start(t.Context(), sinceBoot)
			d.apply("tcp.recv_buffer_max", "1MiB")
			must.Do(t, d.stop())
			d.confirmed("tcp.sack", "1", "tcp.timestamps", "0")
			if c.last != "" {
				d.memory.Set(sack, c.last)
			}
			changes, err := Revert(t.Context(), d.cfg)
			i := slices.IndexFunc(changes, func(c model.Change) bool { return c.Knob == "tcp.sack" })
			must.True(t, err == nil && len(changes) == 2 && i >= 0 && changes[i].State == c.state &&
				strings.Contains(changes[i].Detail, "another program had set") == (c.between != ""), "Revert = %+v, %v", changes, err)
			must.True(t, c.state != model.ChangeUndone || changes[i].Old == c.holds, "it says that it goes back to %q", changes[i].Old)
			d.expect(sack, c.holds)
			d.expect(place("net.ipv4.tcp_timestamps"), "1")
		})
	}
}

// TestConfirmComesLate: an undone change can no longer be confirmed, and a confirmation that
// no watchdog read does not confirm a later change.
func TestConfirmComesLate(t *testing.T) {
	d := newDesk(t)
	d.start(t.Context(), sinceBoot)
	d.apply("tcp.sack", "0")
	records, _, err := d.state().Read()
	must.Do(t, err)
	id := records[0].Transaction
	r := d.call(request{Op: opUndo})
	must.Need(t, r.Error == nil, "%v", r.Error)
	must.Is(t, Confirm(t.Context(), d.cfg, id), ErrNotPending, "Confirm after Undo")
	must.Is(t, Confirm(t.Context(), d.cfg, "unknown"), ErrNotPending, "Confirm of nothing")
	must.Do(t, d.state().Confirm(id))
	d.apply("tcp.timestamps", "0")
	r = d.call(request{Op: opVerify})
	must.True(t, r.Error == nil && len(r.Mismatches) == 0, "Verify = %+v", r)
	must.Do(t, d.stop())
	d.expect(place("net.ipv4.tcp_timestamps"), "1")
	names := d.disk.Names(stateDir)
	must.True(t, !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "confirmed") }), "left behind: %q", names)
}

// TestConfirmNeedsAWatchdog: without a watchdog, Confirm waits until its context ends.
func TestConfirmNeedsAWatchdog(t *testing.T) {
	dir := t.TempDir()
	j := must.Get(journal.Open(dir))(t)
	err := j.Append(journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
		Host: model.Near, Knob: "tcp.sack", Place: sack, Old: "1", New: "0", Origin: journal.Here(),
	}})
	must.Do(t, errors.Join(err, j.Close()))
	ctx, cancel := context.WithTimeout(t.Context(), 3*retry)
	defer cancel()
	must.Is(t, Confirm(ctx, Config{Dir: dir}, "t"), context.DeadlineExceeded, "Confirm")
}

// TestRevertAfterRestart: Revert does not undo a change made before a restart of the machine
// or in another network namespace.
func TestRevertAfterRestart(t *testing.T) {
	d := newDesk(t)
	j, err := d.open()
	must.Do(t, err)
	here := journal.Here()
	for i, o := range []journal.Origin{{Boot: "other", Netns: here.Netns}, {Boot: here.Boot, Netns: here.Netns + 1}} {
		id := []string{"boot", "namespace"}[i]
		err = errors.Join(err,
			j.Append(journal.Record{Kind: journal.KindIntent, Transaction: id, Number: 1, Time: time.Now(), Intent: &journal.Intent{
				Host: model.Near, Knob: "tcp.sack", Place: sack, Old: "1", New: "0", Origin: o,
			}}),
			j.Append(journal.Record{Kind: journal.KindConfirmed, Transaction: id, Time: time.Now()}))
	}
	must.Do(t, errors.Join(err, j.Close()))
	d.memory.Set(sack, "0")
	changes, err := Revert(t.Context(), d.cfg)
	must.True(t, err == nil && len(changes) == 2 && changes[0].State == model.ChangeForeign && changes[1].State == model.ChangeApplied,
		"Revert = %+v, %v", changes, err)
	d.expect(sack, "0")
}

// TestRevertOne reverts the first of two confirmed transactions, then the second. A change
// that a later one was made on stays until that one is reverted.
func TestRevertOne(t *testing.T) {
	d := newDesk(t)
	d.confirmed("tcp.sack", "0", "tcp.timestamps", "0")
	d.confirmed("tcp.sack", "1", "tcp.recv_buffer_max", "1MiB")
	records, _, err := d.state().Read()
	must.Do(t, err)
	all := journal.ConfirmedIntents(records)
	first, second := all[0].Transaction, all[len(all)-1].Transaction

	must.Len(t, must.Get(RevertOne(t.Context(), d.cfg, "unknown"))(t), 0, "unknown session")
	changes, err := RevertOne(t.Context(), d.cfg, first)
	state := map[model.KnobID]model.ChangeState{}
	for _, c := range changes {
		state[c.Knob] = c.State
	}
	must.True(t, err == nil && len(changes) == 2 && state["tcp.timestamps"] == model.ChangeUndone && state["tcp.sack"] == model.ChangeApplied,
		"RevertOne of the first = %+v, %v", changes, err)
	d.expect(place("net.ipv4.tcp_timestamps"), "1")
	d.expect(rmem, "4096 131072 1048576")

	changes, err = RevertOne(t.Context(), d.cfg, second)
	must.True(t, err == nil && len(changes) == 2, "RevertOne of the second = %+v, %v", changes, err)
	d.expect(sack, "0") // as the first one left it
	d.expect(rmem, "4096\t131072\t33554432")
	must.Len(t, must.Get(Revert(t.Context(), d.cfg))(t), 1, "Revert")
	d.expect(sack, "1")
}

func TestRecoverLooksWhereTheChangeWasMade(t *testing.T) {
	here := journal.Here()
	for name, c := range map[string]struct {
		origin       journal.Origin
		holds, after string
		state        model.ChangeState
		open         bool
		says         string
	}{
		"here":                                  {here, "0", "1", model.ChangeUndone, false, ""},
		"here, foreign":                         {here, "2", "2", model.ChangeForeign, false, ""},
		"here, old already":                     {here, "1", "1", model.ChangeUndone, false, ""},
		"other namespace":                       {journal.Origin{Boot: here.Boot, Netns: here.Netns + 1}, "0", "0", model.ChangeApplied, true, ""},
		"other boot":                            {journal.Origin{Boot: "other", Netns: here.Netns}, "0", "0", model.ChangeForeign, false, ""},
		"other boot, old already":               {journal.Origin{Boot: "other", Netns: here.Netns}, "1", "1", model.ChangeUndone, false, "was back already: the machine was restarted"},
		"other boot, old already, another kept": {journal.Origin{Boot: "other", Netns: here.Netns}, "1", "1", model.ChangeUndone, false, "was back already: the machine was restarted; what linerate keeps is not set yet"},
		"other boot, kept":                      {journal.Origin{Boot: "other", Netns: here.Netns}, "2", "2", model.ChangeUndone, false, "which linerate keeps: the machine was restarted"},
		"here, kept":                            {here, "2", "2", model.ChangeForeign, false, ""},
		"origin unknown":                        {journal.Origin{}, "0", "1", model.ChangeUndone, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			j := must.Get(d.open())(t)
			err := j.Append(journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
				Host: model.Near, Knob: "tcp.sack", Place: sack, Old: "1", New: "0", Origin: c.origin,
			}})
			must.Do(t, errors.Join(err, j.Close()))
			d.memory.Set(sack, c.holds)
			if strings.HasSuffix(name, "kept") {
				d.cfg.Keeps = func(id model.KnobID, p hostknob.Place, now string) (kept, there bool) {
					kept = id == "tcp.sack" && p == sack
					return kept, kept && now == "2"
				}
			}
			changes, err := Recover(t.Context(), d.cfg)
			must.True(t, err == nil && len(changes) == 1 && changes[0].State == c.state, "Recover = %+v, %v, want %s", changes, err, c.state)
			must.True(t, c.says == "" || changes[0].Detail == c.says, "said %q, want %q", changes[0].Detail, c.says)
			must.True(t, c.state != model.ChangeUndone || changes[0].Old == c.after, "said to be back to %s, and is %s", changes[0].Old, c.after)
			d.expect(sack, c.after)
			records, _, err := d.state().Read()
			open := len(journal.OpenIntents(records)) > 0
			must.True(t, open == c.open && err == nil, "open %v, %v, want %v", open, err, c.open)
		})
	}
}

func TestRecoverWithNothingToDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	changes, err := Recover(t.Context(), Config{Dir: dir})
	must.True(t, changes == nil && err == nil, "Recover = %v, %v", changes, err)
	must.Is(t, must.Err(os.Stat(dir)), fs.ErrNotExist, "Recover made a directory")
}

// TestRecoverFromDamage: Recover undoes what it can read, and reports and keeps the rest.
func TestRecoverFromDamage(t *testing.T) {
	d := newDesk(t)
	d.start(t.Context(), sinceBoot)
	d.apply("tcp.sack", "0", "tcp.recv_buffer_max", "1MiB")
	text := must.Get(d.cfg.sys.files.Read(journal.Files(stateDir)[0]))(t)
	must.Do(t, d.stop())
	d.memory.Set(sack, "0")
	d.memory.Set(rmem, "4096 131072 1048576")
	first, rest, _ := strings.Cut(string(text), "\n")
	must.Need(t, strings.Contains(first, "tcp_sack"), "the first record is %s", first)
	for _, path := range journal.Files(stateDir) {
		d.disk.Edit(path, func([]byte) []byte { return []byte(strings.Replace(first, "tcp_sack", "tcp_sick", 1) + "\n" + rest) })
	}
	changes, err := Recover(t.Context(), d.cfg)
	must.True(t, errors.Is(err, journal.ErrDamaged) && len(changes) == 1 && changes[0].Knob == "tcp.recv_buffer_max" &&
		changes[0].State == model.ChangeUndone, "Recover = %+v, %v, want what is readable undone", changes, err)
	d.expect(rmem, "4096\t131072\t33554432")
	names := strings.Join(d.disk.Names(stateDir), " ")
	must.True(t, strings.Count(names, ".damaged-1") == 2, "kept %q", names)
	changes, err = Recover(t.Context(), d.cfg)
	must.True(t, changes == nil && err == nil, "second Recover = %v, %v", changes, err)
}

// An agent that starts while the previous agent's watchdog is still undoing must find its
// host neither locked nor changed.
func TestRecoverWaitsForADyingWatchdog(t *testing.T) {
	b, dir := fakeBench(t), t.TempDir()
	before := b.values(t)
	first := start(t, b, dir)
	must.Get(first.Apply(t.Context(), b.changes, time.Minute))(t)
	done := make(chan error, 2)
	go func() {
		_, err := Recover(t.Context(), Config{Dir: dir, Host: b.host, Patience: time.Minute})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("Recover did not wait: %v", err)
	case <-time.After(3 * retry):
	}
	go func() { done <- first.Close() }()
	for range 2 {
		must.OK(t, <-done)
	}
	b.expect(t, before, "after Recover")

	second := start(t, b, dir)
	starting := make(chan error, 1)
	go func() {
		c, err := Start(t.Context(), Config{Dir: dir, Host: b.host, Command: os.Args[:1], Patience: time.Minute})
		if err == nil {
			err = c.Close()
		}
		starting <- err
	}()
	must.OK(t, errors.Join(second.Close(), <-starting), "Start while another watchdog ends")
}
