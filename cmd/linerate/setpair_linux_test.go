package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
	"linerate/internal/report"
)

// TestSetPerHost gives each host its own value.
func TestSetPerHost(t *testing.T) {
	n := netnsBeside(t)
	r := held(t, n.inside(t, "near", "set", "near.tcp.sack=off", "far.tcp.recv_buffer_max=64KiB", "--both", "--for", "10m", n.agent("far")), func() bool {
		now := n.bothKnobs(t)
		return now.near.sack != n.before.near.sack && now.near.rmem == n.before.near.rmem && now.far.sack == n.before.far.sack && now.far.rmem != n.before.far.rmem
	})
	must.Equal(t, strings.Count(r.out, ": back to "), 2, "%s%s", r.out, r.err)
	must.Contain(t, "\n"+r.out, "\n"+farAddr+": tcp.recv_buffer_max ", "the far host has the name that the person gave it")
	n.restored(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"far.tcp.sack=off"}, "far.tcp.sack: no HOST is named"},
		{[]string{"near.tcp.sack=off", n.agent("far")}, "near.tcp.sack: without --both the change is about HOST alone"},
		{[]string{"c.tcp.sack=off", n.agent("far")}, `c.tcp.sack: unknown host "c": write `},
		{[]string{"near.tcp.sack=off", "tcp.sack=off", "--both", n.agent("far")}, "tcp.sack is set twice"},
	} {
		run(t, n.inside(t, "near", append([]string{"set"}, c.args...)...)).ends(t, 2, c.says)
	}
	n.restored(t)
}

// TestProfileApply sets both parts of a profile as one change, reports how the hosts differ from
// those of the profile, and keeps the change on request.
func TestProfileApply(t *testing.T) {
	n := netnsBeside(t)
	file := n.dir + "/pair.yaml"
	text := "profile: 2\nhosts:\n- {role: near, kernel: 2.6.9, knobs: {tcp.sack: off}}\n- {role: far, system: freebsd, knobs: {tcp.recv_buffer_max: 64KiB}}\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	tt := onTerminal(t, n.inside(t, "near", "profile", "apply", file, "--both", n.agent("far")))
	tt.asked(t, "y\n")
	r := tt.wait(t, patience)
	now := n.bothKnobs(t)
	must.True(t, r.code == 0 && now.near.sack != n.before.near.sack && now.near.rmem == n.before.near.rmem && now.far.sack == n.before.far.sack && now.far.rmem != n.before.far.rmem, "exit code %d: %+v, before %+v\n%s", r.code, now, n.before, r.out)
	for _, says := range []string{"tried with kernel 2.6.9", "tried on freebsd, and this host runs linux"} {
		must.Contain(t, r.out, says, "it")
	}
	r = run(t, n.inside(t, "near", "profile", "apply", file, "--both", "--json", n.agent("far")))
	if err := validate("linerate/set/v1", r.out); err != nil || r.code != 0 || !strings.Contains(r.out, `"nothing to do"`) || !strings.Contains(r.err, "1 of 1 settings of the profile are there already") {
		t.Errorf("again: exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	for _, args := range [][]string{{"undo", n.agent("far")}, {"undo"}} {
		r := run(t, n.inside(t, "near", args...))
		must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 1, "%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	n.restored(t)
	run(t, n.inside(t, "near", "profile", "apply", file)).ends(t, 2, "choose with --role") // without a role
}

// TestSetKilledBetweenConfirmations kills the controller after the far host was told to keep a
// change and before this one: the far one keeps it, this one undoes it, and the next change
// reports that.
func TestSetKilledBetweenConfirmations(t *testing.T) {
	n := netnsBeside(t)
	tt := onTerminal(t, n.inside(t, "near", setArgs("--both", n.agent("far"))...))
	must.Until(t, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	watchdog := relatives(tt.cmd.Process.Pid, n.dir).watchdogFar
	must.Need(t, watchdog != 0, "no watchdog on the far host")
	// A stopped watchdog sees the confirmation later: the controller waits.
	must.Do(t, unix.Kill(watchdog, unix.SIGSTOP))
	tt.asked(t, "y\n")
	must.Until(t, "the confirmation on the far host", func() bool {
		_, noted := os.Stat(n.dir + "/confirming.json")
		told, err := os.ReadFile(filepath.Join(n.state("far"), "confirmed"))
		return noted == nil && err == nil && len(told) > 0
	})
	tt.signal(t, unix.SIGKILL)
	must.Do(t, unix.Kill(watchdog, unix.SIGCONT))
	must.Until(t, "a process is left", func() bool { return len(netnsPIDs(n.near, n.far)) == 0 })
	n.changed(t, false, true)

	run(t, n.inside(t, "near", "undo")).ends(t, 0, " may hold it: linerate undo 'exec:") // undo here
	for _, c := range []struct {
		args, says []string
	}{
		{nil, []string{"was cut short on ", "it is not in place here", " may hold it: linerate undo 'exec:"}},
		{[]string{"--both", n.agent("far")}, []string{" still holds tcp.sack=off, tcp.recv_buffer_max=64 KiB, this machine does not: linerate undo 'exec:"}},
	} {
		r := run(t, n.inside(t, "near", append([]string{"set", "tcp.timestamps=off", "--for", "1s"}, c.args...)...))
		for _, says := range c.says {
			must.True(t, r.code == 0 && strings.Contains(r.err, says), "exit code %d, not %q\n%s%s", r.code, says, r.out, r.err)
		}
	}
	r := run(t, n.inside(t, "near", "set", "tcp.timestamps=off", "--for", "1s"))
	must.True(t, !strings.Contains(r.err, "cut short"), "told again\n%s", r.err)
	run(t, n.inside(t, "near", "undo", n.agent("far"))).ends(t, 0)
	n.restored(t)
}

// TestSetPartlyConfirmed: the second host loses a change after the first one was told to keep
// it: the first one undoes this change, and keeps what the user confirmed before.
func TestSetPartlyConfirmed(t *testing.T) {
	n := netnsBeside(t)
	older := onTerminal(t, n.inside(t, "near", "set", "tcp.timestamps=off", "tcp.sack=off", "--both", n.agent("far")))
	older.asked(t, "y\n")
	older.wait(t, patience).succeeds(t) // the older change
	kept := n.bothKnobs(t)

	tt := onTerminal(t, n.inside(t, "near", "set", "tcp.sack=on", "tcp.recv_buffer_max=64KiB", "--both", n.agent("far")))
	must.Until(t, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	far := relatives(tt.cmd.Process.Pid, n.dir).watchdogFar
	near := 0
	for pid, of := range processes() {
		if of == tt.cmd.Process.Pid && named(pid, "watchdog") {
			near = pid
		}
	}
	must.Need(t, far != 0 && near != 0, "watchdogs %d and %d", near, far)
	// The far watchdog gets the confirmation and acts on it only after the near one is dead and
	// its change undone.
	must.Do(t, unix.Kill(far, unix.SIGSTOP))
	tt.asked(t, "y\n")
	must.Until(t, "the confirmation on the far host", func() bool {
		told, err := os.ReadFile(filepath.Join(n.state("far"), "confirmed"))
		return err == nil && len(told) > 0
	})
	must.Do(t, unix.Kill(near, unix.SIGKILL))
	must.Until(t, "the rescue of the near host", func() bool { return n.knobs(t, "near") == kept.near })
	must.Do(t, unix.Kill(far, unix.SIGCONT))
	r := tt.wait(t, patience)
	must.True(t, r.code != 0 && r.code != 7, "exit code %d\n%s", r.code, r.out)
	n.atRest(t, kept) // the older change, and nothing of this one
	for _, dir := range []string{n.dir, n.state("far")} {
		records, _, err := journal.Read(dir)
		left := journal.ConfirmedIntents(records)
		must.True(t, err == nil && len(left) == 2, "%s keeps %+v, %v", dir, left, err)
	}
	for _, args := range [][]string{{"undo", n.agent("far")}, {"undo"}} {
		r := run(t, n.inside(t, "near", args...))
		must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 2, "%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
	}
	n.restored(t)
}

// TestConfirmationWithoutAnswer: the only host that is to keep a change does not answer
// properly. Whether or not it got the confirmation, the change is undone, and what the user
// confirmed before stays.
func TestConfirmationWithoutAnswer(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"it has heard":     func(t *testing.T) { unanswered(t, true) },
		"it has not heard": func(t *testing.T) { unanswered(t, false) },
	})
}

// unanswered kills the agent that brought a confirmation to the far host, after it is on disk
// or, if the host has not heard, when it cannot be written.
func unanswered(t testing.TB, heard bool) {
	n := newNetns(t)
	older := onTerminal(t, n.inside(t, "near", "set", "tcp.timestamps=off", "tcp.sack=off", n.agent("far")))
	older.asked(t, "y\n")
	older.wait(t, patience).succeeds(t) // the older change
	stay := n.bothKnobs(t)
	tt := onTerminal(t, n.inside(t, "near", "set", "tcp.sack=on", "tcp.recv_buffer_max=64KiB", n.agent("far")))
	must.Until(t, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	first := relatives(tt.cmd.Process.Pid, n.dir)
	must.Need(t, first.watchdogFar != 0, "no watchdog on the far host")
	confirmation := filepath.Join(n.state("far"), "confirmed")
	if !heard { // a directory cannot be replaced by a file
		must.Do(t, os.MkdirAll(filepath.Join(confirmation, "full"), 0o700))
		tt.asked(t, "y\n")
	} else {
		// It gets the confirmation, and handles it only after its sender is gone.
		must.Do(t, unix.Kill(first.watchdogFar, unix.SIGSTOP))
		time.Sleep(1500 * time.Millisecond) // linerate asks it every second whether it holds the change
		tt.asked(t, "y\n")
		must.Until(t, "the confirmation", func() bool {
			text, err := os.ReadFile(confirmation)
			return err == nil && len(text) > 0
		})
		second := 0
		for pid, of := range processes() {
			if of == tt.cmd.Process.Pid && named(pid, n.state("far")) && pid != first.agentFar {
				second = pid
			}
		}
		must.Need(t, second != 0, "no second agent on the far host")
		must.Do(t, unix.Kill(second, unix.SIGKILL))
		must.Do(t, unix.Kill(first.watchdogFar, unix.SIGCONT))
	}
	r := tt.wait(t, patience)
	must.True(t, r.code != 0 && r.code != 7, "exit code %d\n%s", r.code, r.out)
	n.atRest(t, stay)
	must.OK(t, os.RemoveAll(confirmation))
	records, _, err := journal.Read(n.state("far"))
	left := journal.ConfirmedIntents(records)
	must.True(t, err == nil && len(left) == 2 && len(journal.OpenIntents(records)) == 0, "the far host keeps %+v, %v", left, err)
	r = run(t, n.inside(t, "near", "undo", n.agent("far")))
	must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 2, "undo: exit code %d\n%s%s", r.code, r.out, r.err)
	n.restored(t)
}

// TestGroupInALab: a factor that is hard to change is applied once for each group of runs, two
// in each of three blocks, on both hosts, and every change is undone.
func TestGroupInALab(t *testing.T) {
	labBeside(t)
	args := []string{"run", "lab:rate=50mbit,rtt=2ms", "--factor", "link.mtu=1400,1500", "--factor", "window=16KiB,64KiB,256KiB", "--settle", "0s",
		"--no-twin", "-t", "100ms", "--omit", "0s", "--blocks", "3", "--db", filepath.Join(t.TempDir(), "results.db"), "--json", "-q"}
	var dry report.DryRun
	told := succeed(t, append(args, "--group", "link.mtu", "--dry-run")...).out
	orPanic(json.Unmarshal([]byte(told), &dry))
	err := validate("linerate/dryrun/v1", told)
	must.True(t, err == nil && dry.Held != nil && dry.Held.Knob == "link.mtu" && dry.Held.Runs == 3 && dry.Held.Changes == 2, "told: %+v, %v", dry.Held, err)
	r := run(t, command(t, append(args, "--group", "link.mtu")...)).succeeds(t)
	j := decode[document](t, r.out).Session
	repeated := slices.ContainsFunc(j.Runs, func(r model.Run) bool { return r.Attempt > 1 })
	must.True(t, j.Plan.Held == "link.mtu" && j.Plan.Baseline == "mtu=1400 window=16KiB" && (repeated || len(j.Runs) == 18 && len(j.Changes) == 12), "holds %q, baseline %q, %d runs, %d changes", j.Plan.Held, j.Plan.Baseline, len(j.Runs), len(j.Changes))
	for _, c := range j.Changes {
		must.True(t, c.Knob == "link.mtu" && c.State == model.ChangeUndone, "%+v", c)
	}
	run(t, command(t, append(args, "--group", "link.mtv")...)).ends(t, 2, "did you mean link.mtu?")
}

// asPair runs in the near host of a lab. It makes the two hosts a pair that linerate does not
// recognise as a lab, so that the test sees what stays on them: $near and $far are their
// targets, and show prints the values of both.
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
brisk="--db $DIR/r.db -t 1s --omit 0.5s --settle 0s --direction to --seed 5"
`

// pairInLab prepares a script in the near host of a lab.
func pairInLab(t testing.TB, spec, script string) *exec.Cmd {
	t.Helper()
	needLab(t)
	needProgram(t, "nsenter")
	dir := t.TempDir()
	// In its own mount namespace, with its own folders for permanent files.
	cmd := exec.CommandContext(t.Context(), binary, "lab", spec, "--", "unshare", "-m", "sh", "-ec", ownEtc(dir+"/etc")+"set +e\n"+asPair+script)
	cmd.Env = append(os.Environ(), "LR="+binary, "DIR="+dir, "LINERATE_CONFIG="+filepath.Join(dir, "config"), "NO_COLOR=1")
	cmd.Dir = dir
	return cmd
}
