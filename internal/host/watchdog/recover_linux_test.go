package watchdog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

func TestRecoverLooksWhereTheChangeWasMade(t *testing.T) {
	here := journal.Here()
	for name, c := range map[string]struct {
		origin journal.Origin
		holds  string
		after  string
		state  model.ChangeState
		open   bool
		says   string
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
			j, err := d.open()
			must.Do(t, err)
			err = j.Append(journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
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

// TestRecoverFromDamage: what can be read is undone, the rest is reported and
// kept.
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
	if !errors.Is(err, journal.ErrDamaged) || len(changes) != 1 || changes[0].Knob != "tcp.recv_buffer_max" || changes[0].State != model.ChangeUndone {
		t.Errorf("Recover = %+v, %v, want what is readable undone", changes, err)
	}
	d.expect(rmem, "4096\t131072\t33554432")
	names := strings.Join(d.disk.Names(stateDir), " ")
	must.True(t, strings.Count(names, ".damaged-1") == 2, "kept %q", names)
	if changes, err := Recover(t.Context(), d.cfg); changes != nil || err != nil {
		t.Errorf("second Recover = %v, %v", changes, err)
	}
}

// An agent that is started while the watchdog of the one before it still undoes
// must not find its host locked, nor changed.
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
