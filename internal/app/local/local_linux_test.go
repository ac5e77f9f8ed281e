package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/files"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/persist"
	"linerate/internal/host/watchdog"
	"linerate/internal/must"
)

// listener records events.
type listener struct {
	app.NoUser
	mu     sync.Mutex
	events []app.Event
}

// Observe implements app.Observer.
func (l *listener) Observe(e app.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// said returns the host's messages, and drops them.
func (l *listener) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, e := range l.events {
		if s, ok := e.(app.HostSaid); ok {
			fmt.Fprintf(&b, "%s|%s\n", s.Host, s.Line)
		}
	}
	l.events = nil
	return b.String()
}

func listening(t *testing.T) (app.Env, *listener) {
	t.Helper()
	l := &listener{}
	return app.Env{Version: "v0.0-test", Self: os.Args[:1], Getenv: os.Getenv, Now: time.Now, Root: t.TempDir(), Asker: l, Observer: l}, l
}

// sackIntent returns a change of net.ipv4.tcp_sack for a journal.
func sackIntent(value string) journal.Record {
	return journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Time: time.Now(), Intent: &journal.Intent{
		Host: model.Near, Knob: "tcp.sack", Place: hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_sack"}, Old: "1", New: value, Origin: journal.Here(),
	}}
}

func write(t *testing.T, dir string, records ...journal.Record) {
	t.Helper()
	j, err := journal.OpenAs(dir, "v0.0-test")
	must.Do(t, err)
	for _, r := range records {
		err = errors.Join(err, j.Append(r))
	}
	must.Do(t, errors.Join(err, j.Close()))
}

// TestOpen opens this machine alone, reads it, and hangs up.
func TestOpen(t *testing.T) {
	env, _ := listening(t)
	h := must.Get(Open(t.Context(), env, Options{State: t.TempDir(), Link: "lo"}))(t)
	defer env.HangUp(h.Client)
	must.True(t, h.Side == model.Near && h.Name != "" && h.Facts.OS == "linux" && h.Client.NoSettings() == "" && h.Facts.Route == nil && h.Value("link.mtu") != "", "%+v", h)
	second := must.Get(env.Again(t.Context(), h))(t)
	must.True(t, second != h.Client, "the same session twice")
	env.HangUp(second)
	_, err := Open(t.Context(), env, Options{State: t.TempDir(), Link: "no-such0"})
	must.True(t, fault.KindOf(err) == fault.Usage && strings.Contains(fault.HintOf(err), "known are ") && strings.Contains(fault.HintOf(err), "lo"), "%v, hint %q", err, fault.HintOf(err))
}

// TestConfirmedHere: the confirmed changes in the journal, and whether they are in force.
func TestConfirmedHere(t *testing.T) {
	env, _ := listening(t)
	dir := t.TempDir()
	m := New(env, Options{State: dir})
	values, err := m.Read(t.Context(), []model.KnobID{"tcp.sack"})
	now, known := values["tcp.sack"].Get()
	must.SkipIf(t, err != nil || !known, "tcp.sack is not known here: %v", err)
	other := map[string]string{"0": "1", "1": "0"}[now]
	confirmed := journal.Record{Kind: journal.KindConfirmed, Transaction: "t", Time: time.Now()}
	write(t, dir, sackIntent(other), confirmed)
	all, err := m.confirmed(t.Context())
	must.True(t, err == nil && len(all) == 1 && !all[0].Holds && all[0].Value == other && strings.Contains(all[0].Detail, "now"), "%+v, %v", all, err)
	again, after := sackIntent(now), confirmed
	again.Transaction, after.Transaction = "u", "u"
	write(t, dir, again, after)
	all, err = m.confirmed(t.Context())
	must.True(t, err == nil && len(all) == 1 && all[0].Holds && all[0].Native == "net.ipv4.tcp_sack", "the last one counts: %+v, %v", all, err)
	unknown := sackIntent("1")
	unknown.Intent.Knob, unknown.Transaction = "tcp.of_tomorrow", "v"
	after.Transaction = "v"
	write(t, dir, unknown, after)
	all, err = m.confirmed(t.Context())
	must.True(t, err == nil && len(all) == 2 && !all[1].Holds && strings.Contains(all[1].Detail, "does not know it"), "%+v, %v", all, err)
}

// TestKeptHere: after a reboot a place holds linerate's value if linerate keeps it, in a file
// that still exists, for this interface.
func TestKeptHere(t *testing.T) {
	env, _ := listening(t)
	env.Catalogue = knob.NewIndex()
	m := New(env, Options{State: t.TempDir()})
	sack := hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_sack"}
	rmem := hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_rmem"}
	_, queue, err := hostknob.Host{Interface: "eth0", Index: env.Catalogue}.Place("txqueuelen")
	must.Do(t, err)
	kept, there := m.keeps("tcp.sack", sack, "0")
	must.True(t, !kept && !there, "something is kept where nothing is")
	keeper := must.Get(m.keeper())(t)
	keeper.About = persist.About{Link: "eth0", Settings: []model.Assignment{{Knob: "tcp.sack", Value: "0"}, {Knob: "tcp.recv_buffer_max", Value: "1048576"}, {Knob: "txqueuelen", Value: "500"}}}
	must.Get(keeper.Write(time.Now(), []files.File{{Path: "/etc/sysctl.d/zz-linerate.conf", Mode: 0o644, Content: []byte("net.ipv4.tcp_sack = 0\n")}}))(t)
	for _, c := range []struct {
		id          model.KnobID
		place       hostknob.Place
		now         string
		kept, there bool
	}{
		{"tcp.sack", sack, "0", true, true},
		{"tcp.sack", sack, "1", true, false},
		{"tcp.recv_buffer_max", rmem, "4096\t131072\t1048576", true, true}, // one of three numbers
		{"tcp.recv_buffer_max", rmem, "4096\t131072\t2097152", true, false},
		{"txqueuelen", queue, "500", true, true},
		{"txqueuelen", queue, "1000", true, false},
		{"tcp.timestamps", hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_timestamps"}, "0", false, false},
	} {
		kept, there := m.keeps(c.id, c.place, c.now)
		must.True(t, kept == c.kept && there == c.there, "%s holds %q: kept %v, there %v", c.id, c.now, kept, there)
	}
	other := queue
	other.Target = "eth1"
	kept, there = m.keeps("txqueuelen", other, "500")
	must.True(t, !kept && !there, "kept for another interface")
	must.Get(keeper.Restore(""))(t)
	kept, there = m.keeps("tcp.sack", sack, "0")
	must.True(t, !kept && !there, "kept after it was taken back")
}

// TestJournalThatDoesNotTellAll: the warning is repeated until the user has acknowledged it.
func TestJournalThatDoesNotTellAll(t *testing.T) {
	env, l := listening(t)
	dir := t.TempDir()
	TellJournal(env, dir)
	must.Equal(t, l.said(), "", "of a machine without a journal")
	write(t, dir, sackIntent("0"), journal.Record{Kind: journal.KindConfirmed, Transaction: "t", Time: time.Now()})
	for _, path := range journal.Files(dir) {
		text := must.Get(os.ReadFile(path))(t)
		must.Do(t, os.WriteFile(path, append([]byte("torn in the midst"), text[20:]...), 0o600))
	}
	TellJournal(env, dir)
	text := l.said()
	must.True(t, strings.HasPrefix(text, "|"+watchdog.UndoMark) && strings.Contains(text, "linerate undo --acknowledge") && strings.Count(text, "\n") == 1, "%q", text)
	must.Is(t, must.Err(New(env, Options{State: dir}).confirmed(t.Context())), journal.ErrDamaged)
	files := must.Get(Acknowledge("v0.0-test", dir))(t)
	must.Need(t, len(files) != 0, "%v", files)
	for _, path := range files {
		must.Equal(t, filepath.Dir(path), dir, "kept as %s", path)
	}
	must.OK(t, JournalFault(dir), "after that")
	must.Len(t, must.Get(Acknowledge("v0.0-test", dir))(t), 0, "again")
	acknowledge(env, Options{State: dir, Acknowledge: true})
	must.Equal(t, l.said(), "", "nothing is left to acknowledge")
}

// TestLines: only message lines are passed on.
func TestLines(t *testing.T) {
	env, l := listening(t)
	w := Lines(env, "nas")
	for _, text := range []string{"panic: something\n", watchdog.UndoMark + "half a ", "line\n" + watchdog.BootMark + "installed\n"} {
		must.Get(w.Write([]byte(text)))(t)
	}
	must.Equal(t, l.said(), "nas|"+watchdog.UndoMark+"half a line\nnas|"+watchdog.BootMark+"installed\n")
	Tell(env, errors.New("two\n  lines"))
	must.Equal(t, l.said(), "|"+watchdog.UndoMark+"two; lines\n")
}

func TestUndoFault(t *testing.T) {
	for _, err := range []error{journal.ErrDamaged, journal.ErrNewer, journal.ErrLocked, &watchdog.StuckError{}} {
		must.Equal(t, fault.KindOf(UndoFault(fmt.Errorf("undo: %w", err))), fault.NotUndone, "%T: kind", err)
	}
	must.Equal(t, fault.KindOf(UndoFault(context.Canceled)), fault.Interrupted, "kind")
}

// TestTheInterfaceThatIsNamed: settings of a link are for the named interface, and its facts
// are not those of the default route's.
func TestTheInterfaceThatIsNamed(t *testing.T) {
	env, _ := listening(t)
	env.Catalogue = knob.NewIndex()
	h := must.Get(Open(t.Context(), env, Options{State: t.TempDir(), Link: "lo"}))(t)
	defer env.HangUp(h.Client)
	must.Equal(t, h.Facts.Interface.Or(""), "lo", "interface")
	must.True(t, h.Facts.Route == nil, "the route of another interface: %+v", h.Facts.Route)
}
