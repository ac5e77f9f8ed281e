package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/stdio"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

const toldOfDamage = "undo: the journal is damaged, a setting may be changed that linerate no longer knows of: see journal-b.jsonl.damaged-1, journal.jsonl.damaged-1 in "

// leftOpen writes what a killed watchdog leaves of a change of sack on a host, and more records.
func (n *netns) leftOpen(t testing.TB, host string, more ...journal.Record) {
	t.Helper()
	must.Do(t, inNetns(n.name(host), func() error {
		j, err := journal.OpenAs(n.state(host), "1.2.3")
		if err != nil {
			return err
		}
		first := journal.Record{Kind: journal.KindIntent, Transaction: "t", Number: 1, Intent: &journal.Intent{
			Host: model.Near, Knob: sackKnob, Place: hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_sack"}, Old: "1", New: "0", Origin: journal.Here(),
		}}
		for _, r := range append([]journal.Record{first}, more...) {
			err = errors.Join(err, j.Append(r))
		}
		return errors.Join(err, j.Close(), os.WriteFile(sack, []byte("0\n"), 0o644))
	}))
}

// edit changes both copies of a host's journal.
func (n *netns) edit(t testing.TB, host string, f func([]byte) []byte) {
	t.Helper()
	for _, path := range journal.Files(n.state(host)) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(text), 0o600)
		}
		must.Do(t, err)
	}
}

// TestDamagedJournal: intact changes are undone, every start reports the damage, and undo exits
// with 7, until a person has acknowledged it, here or remotely.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"here", "from afar"} {
		t.Run(way, func(t *testing.T) {
			n := newNetns(t)
			before := settingsOf(t, n.far)
			n.leftOpen(t, "far", journal.Record{Kind: journal.KindApplied, Transaction: "other", Number: 1}, journal.Record{Kind: journal.KindApplied, Transaction: "t", Number: 1, Text: "0"})
			n.edit(t, "far", func(text []byte) []byte { return bytes.Replace(text, []byte(`"other"`), []byte(`"0ther"`), 1) })
			undo := func(more ...string) *exec.Cmd {
				if way == "here" {
					return n.inside(t, "far", append([]string{"undo", "--state", n.state("far")}, more...)...)
				}
				return n.command(t, append([]string{"undo", n.agent("far") + " " + strings.Join(more, " ")}, more...)...)
			}
			for i := range 3 {
				u := run(t, undo())
				must.True(t, u.code == 7 && (i <= 0 || strings.Contains(u.err, toldOfDamage)), "undo: exit code %d\n%s%s", u.code, u.out, u.err)
				got := settingsOf(t, n.far)
				must.True(t, got[sackKnob] == before[sackKnob], "after undo: %v", got)
			}
			facts := n.inside(t, "far", "facts")
			facts.Env = append(facts.Env, "LINERATE_STATE="+n.state("far"))
			f := run(t, facts)
			must.True(t, f.code == 0 && strings.Count(f.err, toldOfDamage) == 1, "facts: exit code %d\n%s", f.code, f.err)
			p := start(t, n.inside(t, "far", "serve", "--state", n.state("far"), "--listen", farAddr+":0"))
			must.Until(t, "the join link", func() bool { return p.said() != "" })
			p.signal(t, os.Interrupt)
			s := p.wait(t, patience)
			must.True(t, strings.Count(s.err, toldOfDamage) == 1, "serve: exit code %d\n%s%s", s.code, s.out, s.err)
			r := run(t, undo("--acknowledge"))
			must.True(t, r.code == 0 && strings.Contains(r.out+r.err, "acknowledged, and kept as "+journal.Files(n.state("far"))[0]+".damaged-1.seen"), "undo --acknowledge: exit code %d\n%s%s", r.code, r.out, r.err)
			u := run(t, undo())
			must.True(t, u.code == 0 && u.err == "" && u.out == "nothing to undo\n", "undo afterwards: exit code %d\n%s%s", u.code, u.out, u.err)
		})
	}
}

// TestJournalOfANewerLinerate: the journal is left alone, and the newer version named.
func TestJournalOfANewerLinerate(t *testing.T) {
	n := netnsBeside(t)
	n.leftOpen(t, "far")
	line := `"v":7,"seq":2,"prev":1,"by":"9.8.7","record":{}}`
	crc := crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli))
	n.edit(t, "far", func(text []byte) []byte { return fmt.Appendf(text, "{\"crc\":\"%08x\",%s\n", crc, line) })
	for name, cmd := range map[string]*exec.Cmd{
		"here": n.inside(t, "far", "undo", "--state", n.state("far")), "from afar": n.command(t, "undo", n.agent("far")),
		"acknowledge": n.inside(t, "far", "undo", "--acknowledge", "--state", n.state("far")),
	} {
		u := run(t, cmd)
		must.True(t, u.code == 7 && strings.Contains(u.err, "written by linerate 9.8.7 in version 7 of the format"), "undo %s: exit code %d\n%s%s", name, u.code, u.out, u.err)
	}
	for _, path := range journal.Files(n.state("far")) {
		text, err := os.ReadFile(path)
		must.True(t, err == nil && bytes.HasSuffix(text, []byte(line+"\n")), "%s was changed: %v", path, err)
	}
}

// TestDriverIsBusy: the kernel refuses the old value for a while. The watchdog of a killed
// controller retries, other commands say so, and it ends when it has succeeded.
func TestDriverIsBusy(t *testing.T) {
	t.Parallel()
	n, m := newNetns(t), newMounts(t, "true")
	in := func(args ...string) *exec.Cmd {
		enter := append(m.enter()[1:], "--net=/run/netns/"+n.far)
		return n.prepare(exec.CommandContext(t.Context(), "nsenter", append(enter, args...)...))
	}
	do := func(args ...string) {
		t.Helper()
		out, err := in(args...).CombinedOutput()
		must.Need(t, err == nil, "%q: %v\n%s", args, err, out)
	}
	state := []string{"--state", n.state("far")}
	p := start(t, in(append([]string{binary, "set", "tcp.sack=off", "tcp.timestamps=off", "--for", "1m"}, state...)...))
	must.Until(t, "the setting", func() bool { return settingsOf(t, n.far)[sackKnob] == "0" && settingsOf(t, n.far)[stampKnob] == "0" })
	do("mount", "--bind", sack, sack)
	do("mount", "-o", "remount,bind,ro", sack)
	must.Do(t, syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL))
	p.wait(t, patience)
	must.Until(t, "the undo of the rest", func() bool { return settingsOf(t, n.far)[stampKnob] == "1" })
	got := settingsOf(t, n.far)[sackKnob]
	must.Need(t, got == "0", "tcp.sack is %s: nothing was refused", got)
	watchdogs := withVariable("LINERATE_STATE=" + n.dir)
	for range 2 {
		for _, pid := range watchdogs {
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		u := run(t, in(append([]string{binary, "undo"}, state...)...))
		must.True(t, u.code == 7 && strings.Contains(u.err, "; process "+strconv.Itoa(watchdogs[0])+", since ") &&
			strings.Contains(u.err, "1 of 1 settings not undone: write tcp.sack") && strings.Contains(u.err, "goes on trying") &&
			strings.Contains(u.err, "read-only file system"), "undo meanwhile: exit code %d\n%s%s", u.code, u.out, u.err)
	}
	do("umount", sack)
	must.Until(t, "the undo", func() bool { return settingsOf(t, n.far)[sackKnob] == "1" })
	must.Until(t, "the end of the watchdog", func() bool { return len(withVariable("LINERATE_STATE="+n.dir)) == 0 })
	u := run(t, in(append([]string{binary, "undo"}, state...)...))
	must.True(t, u.code == 0 && u.out == "nothing to undo\n", "undo: exit code %d\n%s%s", u.code, u.out, u.err)
}

// TestRecoveryIsTriedAgain: an agent that found the journal busy at its start undoes and
// accepts changes as soon as it is free.
func TestRecoveryIsTriedAgain(t *testing.T) {
	n := netnsBeside(t)
	n.leftOpen(t, "far")
	var j *journal.Journal
	var err error
	must.Until(t, "the journal is free", func() bool { // a child that another test starts has its lock until its exec
		j, err = journal.Open(n.state("far"))
		return err == nil
	})
	argv := []string{"ip", "netns", "exec", n.far, binary, "agent", "--state", n.state("far")}
	peer := must.Get(stdio.Start(t.Context(), argv, stdio.Options{Name: "far", DataHost: farAddr}))(t)
	c := must.Get(session.Open(t.Context(), peer, session.Options{Host: model.Far, Version: "test"}))(t)
	want := []model.Assignment{{Host: model.Far, Knob: stampKnob, Value: "0"}}
	must.Len(t, must.Get(c.Recovered(t.Context()))(t), 0, "Recovered")
	_, err = c.Apply(t.Context(), want, time.Minute)
	must.True(t, errors.Is(err, session.ErrBusy) && strings.Contains(err.Error(), fmt.Sprintf("process %d, since ", os.Getpid())), "Apply while somebody holds the journal = %v", err)
	must.Do(t, j.Close())
	must.OK(t, must.Err(c.Apply(t.Context(), want, time.Minute)), "Apply")
	got := settingsOf(t, n.far)
	must.True(t, got[sackKnob] == "1" && got[stampKnob] == "0", "after Apply: %v", got)
	must.OK(t, must.Err(c.Close(t.Context())))
	must.Len(t, must.Get(filepath.Glob(n.state("far")+"/confirm*"))(t), 0, "left")
}

// systemdRoot returns a machine's files with a systemd that enables what has a link.
func systemdRoot(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	systemctl := "#!/bin/sh\n[ -L " + root + "/etc/systemd/system/multi-user.target.wants/$2 ] && echo enabled\n"
	must.Do(t, errors.Join(os.MkdirAll(root+"/run/systemd/system", 0o755), os.MkdirAll(root+"/usr/bin", 0o755),
		os.WriteFile(root+"/usr/bin/systemctl", []byte(systemctl), 0o755)))
	return root
}

// rooted prepares linerate in the near host of a machine with this root.
func (n *netns) rooted(t testing.TB, root string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := n.inside(t, "near", args...)
	cmd.Args[4] = os.Args[0] // ip netns exec NAME PROGRAM
	cmd.Env = append(cmd.Env, "LINERATE_TEST_MAIN=1", rootVar+"="+root)
	return cmd
}

// jobGone requires that nothing of a job is left, in the root or beside the journal.
func jobGone(t testing.TB, root, state string) {
	t.Helper()
	left, _ := filepath.Glob(root + "/etc/systemd/system/*")
	more, _ := filepath.Glob(state + "/atboot*")
	left = append(left, more...)
	must.True(t, len(left) == 0, "left: %q", left)
}

// TestAtBootSet holds a change with a job for the next start, on this machine and on the other
// one, whose agent reports what it installs.
func TestAtBootSet(t *testing.T) {
	t.Parallel()
	n, here, there := newNetns(t), systemdRoot(t), systemdRoot(t)
	unit := "/etc/systemd/system/linerate-undo.service"
	far := n.agent("far", rootVar+"="+there) + " --at-boot"
	r := held(t, n.rooted(t, here, setArgs("--both", far, "--at-boot", "--for", "10m")...), func() bool {
		if now := n.bothKnobs(t); now.near.sack == n.before.near.sack || now.far.sack == n.before.far.sack {
			return false
		}
		for _, root := range []string{here, there} {
			must.OK(t, must.Err(os.Stat(root+unit)), "changed, and no job is installed")
		}
		return true
	})
	n.restored(t)
	for _, line := range []string{
		"\nat-boot: installed " + here + unit + ": puts the settings back", "\nat-boot: removed " + here + unit + "\n",
		"\n" + farAddr + ": at-boot: installed " + there + unit + ": puts", "\n" + farAddr + ": at-boot: removed " + there + unit + "\n",
	} {
		must.Equal(t, strings.Count("\n"+r.err, line), 1, "not told once: %q\n%s", line, r.err)
	}
	jobGone(t, here, n.dir)
	jobGone(t, there, n.state("far"))
}

// TestAtBootPowerCut kills every process that knows of a change, and starts what the machine's
// systemd would.
func TestAtBootPowerCut(t *testing.T) {
	t.Parallel()
	n, root := newNetns(t), systemdRoot(t)
	p := start(t, n.rooted(t, root, setArgs("--at-boot", "--for", "1h")...))
	n.changed(t, true, false)
	all := netnsPIDs(n.near)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // stopped first, so that none reacts when another one ends
		for _, pid := range all {
			err := syscall.Kill(pid, sig)
			must.Need(t, err == nil || errors.Is(err, syscall.ESRCH), "%v", err)
		}
	}
	p.wait(t, patience)
	must.Need(t, n.knobs(t, "near") != n.before.near, "there is nothing left to put back")
	text, err := os.ReadFile(root + "/etc/systemd/system/multi-user.target.wants/linerate-undo.service")
	_, line, ok := strings.Cut(string(text), "\nExecStart=")
	must.Need(t, err == nil && ok, "%v\n%s", err, text)
	line, _, _ = strings.Cut(line, "\n")
	job := n.rooted(t, "/nonexistent")
	job.Args = append(job.Args[:4], "sh", "-c", strings.ReplaceAll(line, "$$", "$")) // see package atboot
	run(t, job).ends(t, 0, "at-boot: removed ").prints(t, "tcp.sack (net.ipv4.tcp_sack): back to ")
	n.restored(t)
	jobGone(t, root, n.dir)
}

// TestAtBootMistakes are reported before any prompt.
func TestAtBootMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--at-boot: a lab ends with its command", []string{"set", "tcp.sack=off", "lab:rate=1gbit", "--at-boot"}},
		{"--at-boot does not reach the agent of 10.0.0.2", []string{"set", "tcp.sack=off", "exec:10.0.0.2 linerate agent", "--at-boot"}},
		{"--at-boot does not reach the agent of 10.0.0.2", []string{"run", "exec:10.0.0.2 linerate agent", "--factor", "far.tcp.sack=on,off", "--at-boot"}},
		{"--at-boot is for the job of this machine", []string{"undo", "--at-boot", "root@nas"}},
	} {
		run(t, command(t, c.args...)).ends(t, 2, c.want)
	}
}
