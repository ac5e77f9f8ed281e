package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asPair runs in the near host of a lab. It makes of the two hosts a pair that nobody
// takes for a lab, so that what is left of them is seen: $near and $far are their
// targets, and show prints what both hold.
const asPair = `
for p in /proc/[0-9]*; do
	[ "$(readlink $p/ns/net)" = "$(readlink /proc/self/ns/net)" ] && continue
	tr '\0' ' ' <$p/cmdline | grep -q 'lab-init host' && there="nsenter --net=$p/ns/net --uts=$p/ns/uts"
done
agent="$LR agent --interface eth0 --link-rate=50000000"
near="exec:10.99.0.1 $agent --state $DIR/a"
far="exec:10.99.0.2 $there $agent --state $DIR/b"
show() { echo "$1: near $(cut -f3 /proc/sys/net/ipv4/tcp_wmem) far $($there cut -f3 /proc/sys/net/ipv4/tcp_rmem)"; }
gone() { i=0; while grep -aqs "state.$DIR/" /proc/[0-9]*/cmdline; do i=$((i+1)); [ $i -gt 200 ] && { echo "an agent is still there"; return; }; sleep 0.1; done; }
brisk="--db $DIR/r.db -t 1s --omit 0.5s --settle 0s --direction to --seed 5 --guard none"
`

// pairInLab prepares a script in the near host of a lab.
func pairInLab(t testing.TB, spec, script string) *exec.Cmd {
	t.Helper()
	needLab(t)
	if _, err := exec.LookPath("nsenter"); err != nil {
		t.Skip("nsenter is not installed")
	}
	dir := t.TempDir()
	// In a mount namespace of its own, with folders of its own for permanent files.
	cmd := exec.CommandContext(t.Context(), binary, "lab", spec, "--", "unshare", "-m", "sh", "-ec", ownEtc(dir+"/etc")+"set +e\n"+asPair+script)
	cmd.Env = append(os.Environ(), "LR="+binary, "DIR="+dir, "LINERATE_CONFIG="+filepath.Join(dir, "config"), "NO_COLOR=1")
	cmd.Dir = dir
	return cmd
}

// TestTuneStaysUntilTheNextStart: the person says once that it is to stay until the next
// start, and it stays when linerate has ended; linerate undo takes it back.
func TestTuneStaysUntilTheNextStart(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, pairInLab(t, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB",
		"show before; $LR tune --from \"$near\" \"$far\" $brisk --quick; gone; show after; LINERATE_STATE=$DIR/b $there $LR undo; show undone\n"))
	eventually(t, 3*time.Minute, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it?") })
	if _, err := tt.master.WriteString("s\n"); err != nil {
		t.Fatal(err)
	}
	r := tt.wait(t, time.Minute)
	for _, want := range []string{"before: near 4194304 far 32768", "after: near 4194304 far 524288", "undone: near 4194304 far 32768"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("not said: %q", want)
		}
	}
	if strings.Count(r.out, "keep it?") != 1 {
		t.Error("it asks more than once")
	}
	if t.Failed() {
		t.Log(r.out)
	}
}

// TestTunePermanently: the person says once that it is to stay for good, agrees to the
// file that is shown, and it stands there; undo takes back both.
func TestTunePermanently(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, pairInLab(t, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", `
$LR tune --from "$near" "$far" $brisk --quick; gone; show after; cat /etc/sysctl.d/*linerate*
LINERATE_STATE=$DIR/b $there $LR undo --kept; echo left: $(ls /etc/sysctl.d)
`))
	for _, ask := range []struct{ shown, answer string }{{"keep it?", "p\n"}, {"write these files on", "y\n"}} {
		eventually(t, 3*time.Minute, ask.shown, func() bool { return strings.Contains(tt.shown.String(), ask.shown) })
		if _, err := tt.master.WriteString(ask.answer); err != nil {
			t.Fatal(err)
		}
	}
	r := tt.wait(t, time.Minute)
	for _, want := range []string{"after: near 4194304 far ", "net.ipv4.tcp_rmem = ", "left:\r\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("not said: %q", want)
		}
	}
	if strings.Contains(r.out, "after: near 4194304 far 32768") || strings.Contains(r.out, "from the next start\r\n") || strings.Count(r.out, "keep it?") != 1 {
		t.Error("it does not hold, or it asks more than once")
	}
	if t.Failed() {
		t.Log(r.out)
	}
}

// TestTuneAsAProfile: the person wants a profile: a file with the evidence, and the hosts
// are as they were.
func TestTuneAsAProfile(t *testing.T) {
	t.Parallel()
	tt := onTerminal(t, pairInLab(t, "rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB",
		`$LR tune --from "$near" "$far" $brisk --quick; gone; show after; cat linerate-*.yaml; ls /etc/sysctl.d`))
	eventually(t, 3*time.Minute, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it?") })
	if _, err := tt.master.WriteString("f\n"); err != nil {
		t.Fatal(err)
	}
	r := tt.wait(t, time.Minute)
	for _, want := range []string{"after: near 4194304 far 32768", "saved linerate-", "tcp.recv_buffer_max:", "verdicts:", "outcome: better"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("not said: %q", want)
		}
	}
	if t.Failed() {
		t.Log(r.out)
	}
}

// TestTuneKilledInEveryPhase kills linerate while a race, a trimming, the search for
// smaller values, and the proof have changed a host: each time the host goes back by
// itself, and the search goes on from there with the next phase.
func TestTuneKilledInEveryPhase(t *testing.T) {
	t.Parallel()
	cmd := pairInLab(t, "rate=50mbit,rtt=20ms,near.tcp.send_buffer_max=32KiB,far.tcp.recv_buffer_max=32KiB", `
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
`)
	r := run(t, cmd)
	for _, phase := range []string{"before", "race", "trim", "plateau", "proof"} {
		if !strings.Contains(r.out, phase+": near 32768 far 32768\n") {
			t.Errorf("after %s a host is changed, or it did not come", phase)
		}
	}
	if t.Failed() || strings.Contains(r.out, "still there") {
		t.Fatal(r.out + r.err)
	}
}
