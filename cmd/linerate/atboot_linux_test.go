package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/must"
)

// systemdRoot is a machine's files with a systemd that enables what has a link.
func systemdRoot(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	systemctl := "#!/bin/sh\n[ -L " + root + "/etc/systemd/system/multi-user.target.wants/$2 ] && echo enabled\n"
	must.Do(t, errors.Join(os.MkdirAll(root+"/run/systemd/system", 0o755), os.MkdirAll(root+"/usr/bin", 0o755),
		os.WriteFile(root+"/usr/bin/systemctl", []byte(systemctl), 0o755)))
	return root
}

// rooted prepares linerate in the near host of a machine with that root.
func (n *netns) rooted(t testing.TB, root string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := n.inside(t, "near", args...)
	cmd.Args[4] = os.Args[0] // ip netns exec NAME PROGRAM
	cmd.Env = append(cmd.Env, "LINERATE_TEST_MAIN=1", rootVar+"="+root)
	return cmd
}

// jobGone demands that nothing of a job is left, in the root or beside the journal.
func jobGone(t testing.TB, root, state string) {
	t.Helper()
	left, _ := filepath.Glob(root + "/etc/systemd/system/*")
	more, _ := filepath.Glob(state + "/atboot*")
	if left = append(left, more...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestAtBootSet holds a change with a job for the next start, on this machine and
// on the other one, whose agent tells what it installs.
func TestAtBootSet(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n, here, there := newNetns(t), systemdRoot(t), systemdRoot(t)
	before := n.bothKnobs(t)
	unit := "/etc/systemd/system/linerate-undo.service"
	far := n.agent("far", rootVar+"="+there) + " --at-boot"
	r := held(t, n.rooted(t, here, setArgs("--both", far, "--at-boot", "--for", "10m")...), func() bool {
		if now := n.bothKnobs(t); now.near.sack == before.near.sack || now.far.sack == before.far.sack {
			return false
		}
		for _, root := range []string{here, there} {
			must.OK(t, must.Err(os.Stat(root+unit)), "changed, and no job is installed")
		}
		return true
	})
	n.restored(t, before)
	for _, line := range []string{
		"\nat-boot: installed " + here + unit + ": puts the settings back", "\nat-boot: removed " + here + unit + "\n",
		"\n" + farAddr + ": at-boot: installed " + there + unit + ": puts", "\n" + farAddr + ": at-boot: removed " + there + unit + "\n",
	} {
		must.Equal(t, strings.Count("\n"+r.err, line), 1, "not told once: %q\n%s", line, r.err)
	}
	jobGone(t, here, n.dir)
	jobGone(t, there, n.state("far"))
}

// TestAtBootPowerCut kills everything that knows of a change, and starts what the
// systemd of the machine would.
func TestAtBootPowerCut(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n, root := newNetns(t), systemdRoot(t)
	before := n.bothKnobs(t)
	p := start(t, n.rooted(t, root, setArgs("--at-boot", "--for", "1h")...))
	n.changed(t, before, true, false)
	all := netnsPIDs(t.Context(), n.near)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // stopped first, so that none reacts when another one ends
		for _, pid := range all {
			err := syscall.Kill(pid, sig)
			must.Need(t, err == nil || errors.Is(err, syscall.ESRCH), "%v", err)
		}
	}
	p.wait(t, patience)
	must.Need(t, n.knobs(t, "near") != before.near, "there is nothing left to put back")
	text, err := os.ReadFile(root + "/etc/systemd/system/multi-user.target.wants/linerate-undo.service")
	_, line, ok := strings.Cut(string(text), "\nExecStart=")
	must.Need(t, err == nil && ok, "%v\n%s", err, text)
	line, _, _ = strings.Cut(line, "\n")
	job := n.rooted(t, "/nonexistent")
	job.Args = append(job.Args[:4], "sh", "-c", strings.ReplaceAll(line, "$$", "$")) // see package atboot
	run(t, job).ends(t, 0, "at-boot: removed ").prints(t, "tcp.sack (net.ipv4.tcp_sack): back to ")
	n.restored(t, before)
	jobGone(t, root, n.dir)
}

// TestAtBootMistakes are told before anything is asked.
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
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && strings.Contains(r.err, c.want), "%q: exit code %d\n%s%s", c.args, r.code, r.out, r.err)
	}
}
