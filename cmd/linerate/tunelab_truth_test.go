//go:build truth && linux

package main

import (
	"strings"
	"testing"

	"linerate/internal/truth"

	"linerate/internal/must"
)

// TestTuneStaysUntilTheNextStart: the person says once that it is to stay until the next
// start, and it stays when linerate has ended; linerate undo takes it back.
func TestTuneStaysUntilTheNextStart(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		tt := onTerminal(try, pairInLab(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB",
			"show before; $LR tune --from \"$near\" \"$far\" $brisk --quick; gone; show after; LINERATE_STATE=$DIR/b $there $LR undo; show undone\n"))
		eventually(try, patience, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it?") })
		must.Get(tt.master.WriteString("s\n"))(try)
		r := tt.wait(try, patience)
		for _, want := range []string{"before: near 4194304 far 32768", "after: near 4194304 far 524288", "undone: near 4194304 far 32768"} {
			must.Contain(try, r.out, want, "not said")
		}
		must.Equal(try, strings.Count(r.out, "keep it?"), 1, "it asks more than once")
		if try.Failed() {
			try.Log(r.out)
		}
	})
}

// TestTunePermanently: the person says once that it is to stay for good, agrees to the
// file that is shown, and it stands there; undo takes back both.
func TestTunePermanently(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		tt := onTerminal(try, pairInLab(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", `
	$LR tune --from "$near" "$far" $brisk --quick; gone; show after; cat /etc/sysctl.d/*linerate*
	LINERATE_STATE=$DIR/b $there $LR undo --kept; echo left: $(ls /etc/sysctl.d)
	`))
		for _, ask := range []struct{ shown, answer string }{{"keep it?", "p\n"}, {"write these files on", "y\n"}} {
			eventually(try, patience, ask.shown, func() bool { return strings.Contains(tt.shown.String(), ask.shown) })
			must.Get(tt.master.WriteString(ask.answer))(try)
		}
		r := tt.wait(try, patience)
		for _, want := range []string{"after: near 4194304 far ", "net.ipv4.tcp_rmem = ", "left:\r\n"} {
			must.Contain(try, r.out, want, "not said")
		}
		if strings.Contains(r.out, "after: near 4194304 far 32768") || strings.Contains(r.out, "from the next start\r\n") || strings.Count(r.out, "keep it?") != 1 {
			try.Error("it does not hold, or it asks more than once")
		}
		if try.Failed() {
			try.Log(r.out)
		}
	})
}

// TestTuneAsAProfile: the person wants a profile: a file with the evidence, and the hosts
// are as they were.
func TestTuneAsAProfile(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		tt := onTerminal(try, pairInLab(try, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB",
			`$LR tune --from "$near" "$far" $brisk --quick; gone; show after; cat linerate-*.yaml; ls /etc/sysctl.d`))
		eventually(try, patience, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it?") })
		must.Get(tt.master.WriteString("f\n"))(try)
		r := tt.wait(try, patience)
		for _, want := range []string{"after: near 4194304 far 32768", "saved linerate-", "tcp.recv_buffer_max:", "verdicts:", "outcome: better"} {
			must.Contain(try, r.out, want, "not said")
		}
		if try.Failed() {
			try.Log(r.out)
		}
	})
}

// TestTuneKilledInEveryPhase kills linerate while a race, a trimming, the search for
// smaller values, and the proof have changed a host: each time the host goes back by
// itself, and the search goes on from there with the next phase.
func TestTuneKilledInEveryPhase(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		r := run(try, pairInLab(try, "rate=50mbit,rtt=20ms,near.tcp.send_buffer_max=32KiB,far.tcp.recv_buffer_max=32KiB", killPhases))
		for _, phase := range []string{"before", "race", "trim", "plateau", "proof"} {
			must.Contain(try, r.out, phase+": near 32768 far 32768\n", "after %s a host is changed, or it did not come", phase)
		}
		must.Need(try, !try.Failed() && !strings.Contains(r.out, "still there"), "%v", r.out+r.err)
	})
}

const killPhases = `
killed() { # PHASE TEXT FLAGS...: kills it when the text is there and a host is changed
	phase=$1 text=$2; shift 2
	$LR tune --from "$near" "$far" $brisk "$@" 2>$DIR/$phase >/dev/null & pid=$!
	i=0
	until grep -q "$text" $DIR/$phase && [ "$(show x)" != "x: near 32768 far 32768" ]; do
		i=$((i+1)); [ $i -gt 1500 ] && { echo "$phase never came"; cat $DIR/$phase; break; }
		kill -0 $pid 2>/dev/null || { echo "$phase: it ended"; cat $DIR/$phase; break; }
		sleep 0.1
	done
	kill -9 $pid; wait $pid 2>/dev/null; gone; show $phase
}
show before
killed race 'trying to '
killed trim 'is all of it needed' --resume last
killed plateau 'would less do' --resume last
killed proof 'proving in fresh blocks' --resume last
`
