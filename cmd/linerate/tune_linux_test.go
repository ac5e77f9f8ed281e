package main

import (
	"cmp"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/report"
	"linerate/internal/store/sqlite"
)

// tuned is the document of linerate tune.
type tuned struct {
	report.Tuned
	Record tune.Record `json:"record"`
	Next   []string    `json:"next"`
}

// brisk are the flags of a search that a test has time for.
func brisk(more ...string) []string {
	return append([]string{"-t", "1s", "--omit", "0.5s", "--settle", "0s", "--direction", "to", "--seed", "5", "--guard", "none"}, more...)
}

// TestTuneFindsTheWindow is the closed loop with everything real: a window of 32 KiB
// over 20 ms carries 13 of the 50 Mbit/s. The setting of the far host is named, tried,
// proven by a factor, and neither host is left changed; the search and its proof are
// stored and shown again.
func TestTuneFindsTheWindow(t *testing.T) {
	t.Parallel()
	needLab(t)
	db := t.TempDir() + "/r.db"
	host := "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB"
	text := succeed(t, append([]string{"tune", host, "--quick", "--json", "--db", db}, brisk()...)...).out
	if err := validate("linerate/tune/v2", text); err != nil {
		t.Error(err)
	}
	got := decode[tuned](t, text)
	if !got.Proven || len(got.Next) != 2 || !strings.Contains(got.Headline, "far.tcp.recv_buffer_max 32KiB -> ") || len(got.Gains) != 1 || !strings.Contains(got.Gains[0], " times ") {
		t.Errorf("%+v", got.Tuned)
	}
	if len(got.Record.Winner.Assignments) != 1 || got.Record.Winner.Assignments[0].Knob != "tcp.recv_buffer_max" || got.Record.Winner.Assignments[0].Host != model.Far {
		t.Errorf("winner %+v", got.Record.Winner)
	}
	again := succeed(t, "show", got.Session, "--db", db).out
	for _, want := range []string{got.Headline, got.Gains[0][:20]} {
		if !strings.Contains(again, want) {
			t.Errorf("show does not say %q:\n%s", want, again)
		}
	}
	if proof := succeed(t, "show", got.Proof, "--details", "--db", db).out; !strings.Contains(proof, "better") {
		t.Errorf("the proof:\n%s", proof)
	}
}

// TestTuneLeavesAloneWhatIsFull: a path that is used up needs nothing, and no run of
// a changed host is made; a dry run only says what would be tried.
func TestTuneLeavesAloneWhatIsFull(t *testing.T) {
	t.Parallel()
	needLab(t)
	got := decode[tuned](t, succeed(t, append([]string{"tune", "lab:rate=20mbit,rtt=5ms", "--json", "--db", ":memory:"}, brisk()...)...).out)
	if got.Proven || len(got.Record.Winner.Assignments) > 0 || got.Record.Runs > 0 {
		t.Errorf("%+v", got)
	}
	got = decode[tuned](t, succeed(t, append([]string{"tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", "--dry-run", "--json", "--db", ":memory:"}, brisk()...)...).out)
	if len(got.Ideas) == 0 || got.Ideas[0].State != tune.Waiting || got.Record.Runs > 0 {
		t.Errorf("dry run: %+v", got.Tuned)
	}
}

// TestTuneIsCutShort ends a search in the middle of a race, by Ctrl-C and by kill -9:
// what it knew is stored, and it goes on from there to its end. That the hosts are as
// before is the runs' business: TestInterrupt and TestCrash.
func TestTuneIsCutShort(t *testing.T) {
	t.Parallel()
	needLab(t)
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "kill -9": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := t.TempDir() + "/r.db"
			args := append([]string{"tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", "--quick", "--db", db}, brisk()...)
			p := start(t, command(t, args...))
			eventually(t, time.Minute, "a race", func() bool { return strings.Contains(p.cmd.Stderr.(*lines).String(), "trying to ") })
			p.signal(t, signal)
			r := p.wait(t, time.Minute)
			s, rec := search(t, db)
			if s.Kind != model.KindTune || len(rec.Inputs) != 1 || len(rec.Ideas) == 0 {
				t.Fatalf("session of kind %s, %d inputs", s.Kind, len(rec.Inputs))
			}
			if signal == syscall.SIGINT && !strings.Contains(r.err, "linerate tune --resume "+s.ID) {
				t.Errorf("it does not say how to go on: %s", r.err)
			}
			p = start(t, command(t, append([]string{"tune", "--resume", s.ID, "--db", db}, brisk("--quick")...)...))
			eventually(t, 2*time.Minute, "the proof", func() bool { return strings.Contains(p.cmd.Stderr.(*lines).String(), "proving in fresh blocks") })
			p.signal(t, syscall.SIGINT)
			p.wait(t, time.Minute)
			now, went := search(t, db, s.ID)
			if now.State != model.SessionDone || len(went.Inputs) < 3 || len(went.Winner.Assignments) == 0 || went.Confirmation == "" ||
				len(went.Inputs[0].Look.Ideas) != len(rec.Inputs[0].Look.Ideas) {
				t.Errorf("%s: %s, %+v", now.ID, now.State, went)
			}
		})
	}
}

// search reads a search from the store, the newest session where none is named.
func search(t testing.TB, db string, id ...string) (model.Session, tune.Record) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	s, err := st.Session(t.Context(), cmp.Or(strings.Join(id, ""), "last"))
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	rec, _, err := tune.Read(&s)
	if err != nil {
		t.Fatal(err)
	}
	return s, rec
}
