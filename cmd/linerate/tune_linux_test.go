package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/report"
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
	host := "lab:rate=50mbit,rtt=20ms,b.tcp.recv_buffer_max=32KiB"
	got := decode[tuned](t, succeed(t, append([]string{"tune", host, "--quick", "--json", "--db", db}, brisk()...)...).out)
	if !got.Proven || len(got.Next) != 2 || !strings.Contains(got.Headline, "b.tcp.recv_buffer_max 32KiB -> ") || len(got.Gains) != 1 || !strings.Contains(got.Gains[0], " times ") {
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
	if proof := succeed(t, "show", got.Proof, "--db", db).out; !strings.Contains(proof, "better") {
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
	got = decode[tuned](t, succeed(t, append([]string{"tune", "lab:rate=50mbit,rtt=20ms,b.tcp.recv_buffer_max=32KiB", "--dry-run", "--json", "--db", ":memory:"}, brisk()...)...).out)
	if len(got.Ideas) == 0 || got.Ideas[0].State != tune.Waiting || got.Record.Runs > 0 {
		t.Errorf("dry run: %+v", got.Tuned)
	}
}

// TestTuneIsCutShort ends a search in the middle of a run that changes the far host,
// by Ctrl-C and by kill -9: the host is as before, and the search goes on to its end.
func TestTuneIsCutShort(t *testing.T) {
	needRoot(t)
	for name, signal := range map[string]syscall.Signal{"Ctrl-C": syscall.SIGINT, "kill -9": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNetns(t)
			ip(t, "netns", "exec", n.b, "sysctl", "-qw", "net.ipv4.tcp_rmem=4096 8192 8192")
			ip(t, "netns", "exec", n.b, "sysctl", "-qw", "net.ipv4.tcp_window_scaling=0")
			before := n.bothKnobs(t)
			args := append([]string{"tune", n.agent("b"), "--from", n.agent("a")}, brisk("--quick")...)
			p := start(t, n.command(t, args...))
			eventually(t, time.Minute, "a change of the far host", func() bool { return n.bothKnobs(t).b != before.b })
			p.signal(t, signal)
			p.wait(t, time.Minute)
			eventually(t, time.Minute, "the far host as before", func() bool { return n.bothKnobs(t) == before })
			s := n.session(t)
			if s.Kind != model.KindTune || len(s.Tuning) == 0 {
				t.Fatalf("session %s of kind %s, %d bytes of search", s.ID, s.Kind, len(s.Tuning))
			}
			done := run(t, n.command(t, append([]string{"tune", "--resume", s.ID, n.agent("b"), "--from", n.agent("a"), "--json"}, brisk("--quick")...)...))
			got := decode[tuned](t, done.out)
			if len(got.Record.Inputs) == 0 || n.bothKnobs(t) != before {
				t.Errorf("%+v\n%s", got.Tuned, done.err)
			}
		})
	}
}
