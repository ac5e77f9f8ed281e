package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// isolated runs a shell script with its own mounts and network, so that it may fill disks and
// change settings. $W is a directory, linerate is in the path, and "$FAR" is an agent behind
// loopback that keeps its journal in $W/far.
func isolated(t testing.TB, script string, env ...string) (dir string, r result) {
	t.Helper()
	flags := "-mn"
	if os.Geteuid() != 0 {
		flags = "-Urmn"
	}
	out, err := exec.CommandContext(t.Context(), "unshare", flags, "sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up").CombinedOutput()
	must.SkipIf(t, err != nil, "needs unshare %s with mount and ip: %v: %s", flags, err, out)
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", flags, "sh", "-c", "set -e\nip link set lo up\n"+script)
	cmd.Env = os.Environ()
	for key, value := range userEnv(dir) {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.Env = append(append(cmd.Env, "W="+dir, "FAR=exec:127.0.0.1 linerate agent --state "+filepath.Join(dir, "far")), env...)
	return dir, run(t, cmd)
}

const (
	ceilingFile  = "/proc/sys/net/ipv4/tcp_rmem"
	shortOptions = " -n 256KiB --omit 0 --settle 10ms "
)

// file reads a file that a script has written.
func file(t testing.TB, parts ...string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join(parts...)))(t))
}

// TestFullDiskUnderStore fills the disk with the results while an experiment runs.
func TestFullDiskUnderStore(t *testing.T) {
	t.Parallel()
	dir, r := isolated(t, `
mkdir $W/store $W/out
mount -t tmpfs -o size=2m none $W/store
export LINERATE_DB=$W/store/results.db
cat `+ceilingFile+` > $W/out/before
linerate test "$FAR" --to -t 100ms --omit 0 --title earlier > $W/out/first
{
	i=0
	until grep -q '^block [0-9]*/' $W/out/err 2>/dev/null || [ $((i += 1)) -gt 6000 ]; do sleep 0.02; done
	dd if=/dev/zero of=$W/store/fill bs=64k 2>/dev/null || true
} &
code=0
linerate run "$FAR" --factor far.tcp.recv_buffer_max=64KiB,1MiB`+shortOptions+`--blocks 100 > $W/out/out 2> $W/out/err || code=$?
wait
echo $code > $W/out/code
cat `+ceilingFile+` > $W/out/after
linerate list > $W/out/list
linerate show last~1 > $W/out/again
linerate undo > $W/out/undo
linerate undo --state $W/far >> $W/out/undo
rm $W/store/fill
linerate show last --json > $W/out/last.json`)
	r.succeeds(t)
	out := filepath.Join(dir, "out")
	must.Equal(t, strings.TrimSpace(file(t, out, "code")), "6", "exit code")
	has(t, "stderr", file(t, out, "err"), "no space left (free some, or keep results elsewhere: --db PATH)", "hosts undone", "linerate run --resume ")
	has(t, "stdout", file(t, out, "out"), "interrupted: record run ", "all undone, verified")
	before, after := file(t, out, "before"), file(t, out, "after")
	must.True(t, before == after, "the host is left with %s, had %s", after, before)
	has(t, "list", file(t, out, "list"), "earlier")
	must.Equal(t, file(t, out, "first"), file(t, out, "again"), "the earlier session reads differently")
	must.Equal(t, file(t, out, "undo"), "nothing to undo\nnothing to undo\n", "undo")
	must.OK(t, validate("linerate/session/v1", file(t, out, "last.json")), "the session that met the full disk")
	d := decode[document](t, file(t, out, "last.json"))
	must.True(t, len(d.Session.Runs) >= 4, "%d runs kept of at least the 4 of the first block", len(d.Session.Runs))
}

// TestFullDiskUnderJournal has no room for a journal, on either end: then nothing may be changed.
func TestFullDiskUnderJournal(t *testing.T) {
	t.Parallel()
	for end, dir := range map[string]string{"near": "state", "far": "far"} {
		t.Run("the "+end+" host", func(t *testing.T) {
			dir, r := isolated(t, `
mkdir $W/far $W/state $W/out
mount -t tmpfs -o size=64k,mode=700 none $W/`+dir+`
dd if=/dev/zero of=$W/`+dir+`/fill bs=4k 2>/dev/null || true
cat `+ceilingFile+` > $W/out/before
linerate run "$FAR" --seed 1 --factor `+end+`.tcp.recv_buffer_max=64KiB,1MiB`+shortOptions+`--blocks 2 > $W/out/out 2> $W/out/err || echo $? > $W/out/code
cat `+ceilingFile+` > $W/out/after
linerate list > $W/out/list 2>&1`)
			r.succeeds(t)
			out := filepath.Join(dir, "out")
			must.Equal(t, strings.TrimSpace(file(t, out, "code")), "1", "exit code")
			has(t, "stderr", file(t, out, "err"), " cannot be applied: apply setting on ", "journal.jsonl: no space left on device",
				"make room there; a setting is only changed once its undo is on disk")
			before, after := file(t, out, "before"), file(t, out, "after")
			must.True(t, before == after, "the host is left with %s, had %s", after, before)
			has(t, "list", file(t, out, "list"), "no session") // the plan is refused as a whole
		})
	}
}

// TestReadOnlyHome: if results cannot be stored the error gives advice, and the advice works.
func TestReadOnlyHome(t *testing.T) {
	t.Parallel()
	dir, r := isolated(t, `
mkdir $W/home $W/out
mount -t tmpfs -o size=64k,mode=700 none $W/home
mount -o remount,ro $W/home
unset LINERATE_DB LINERATE_STATE XDG_DATA_HOME
export HOME=$W/home
code=0; linerate list 2> $W/out/list || code=$?; echo $code > $W/out/code
linerate test "$FAR" --to -t 100ms --omit 0 2>> $W/out/list && exit 9
linerate test "$FAR" --to -t 100ms --omit 0 --db :memory: > $W/out/memory`)
	r.succeeds(t)
	must.Equal(t, strings.TrimSpace(file(t, dir, "out", "code")), "6", "exit code")
	has(t, "stderr", file(t, dir, "out", "list"), "read-only file system", "for this command only: --db :memory:")
	has(t, "stdout with --db :memory:", file(t, dir, "out", "memory"), "bit/s")
}

// TestFirstHour16NoHome runs as a user who is not in the system's list of users, as in a
// container: without HOME there is no folder for results, the error says so, and nothing is
// written into the current folder. A folder given otherwise is used, but relative XDG folders are
// ignored.
func TestFirstHour16NoHome(t *testing.T) {
	rootBeside(t)
	const nobodyKnows = 54321
	dir := openFolder(t)
	own, here := filepath.Join(dir, "own"), filepath.Join(dir, "here")
	program := filepath.Join(dir, "linerate")
	must.Do(t, exec.CommandContext(t.Context(), "cp", binary, program).Run()) // no descriptor that a fork beside this test would keep
	for _, d := range []string{own, here} {
		must.Do(t, os.Mkdir(d, 0o700))
		must.Do(t, os.Chown(d, nobodyKnows, nobodyKnows))
	}
	for name, c := range map[string]struct {
		env  []string
		args string
		code int
		says string
		db   string // path of the results then, below own
	}{
		"nothing":      {args: "list", code: 6, says: "set HOME, name a file with --db FILE"},
		"relative XDG": {env: []string{"XDG_DATA_HOME=data", "XDG_CONFIG_HOME=config", "XDG_STATE_HOME=state"}, args: "list", code: 6, says: "set HOME"},
		"a host":       {args: "test nosuch.invalid --db :memory:", code: 3, says: "LINERATE_CONFIG"},
		"undo":         {args: "undo", code: 1, says: "LINERATE_STATE"},
		"in memory":    {args: "list --db :memory:"},
		"HOME":         {env: []string{"HOME=" + own}, args: "list", db: ".local/share/linerate/linerate.db"},
		"XDG":          {env: []string{"HOME=" + dir, "XDG_DATA_HOME=" + own}, args: "list", db: "linerate/linerate.db"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, strings.Fields(c.args)...)
			cmd.Dir, cmd.Env = here, append([]string{"PATH=" + os.Getenv("PATH"), "LINERATE_MDNS=off", "LINERATE_WAIT=0s"}, c.env...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyKnows, Gid: nobodyKnows}}
			run(t, cmd).ends(t, c.code, c.says)
			must.Len(t, must.Get(os.ReadDir(here))(t), 0, "in the present folder")
			if c.db != "" {
				must.OK(t, must.Err(os.Stat(filepath.Join(own, c.db))))
			}
		})
	}
}

// openFolder returns a new folder that other users may enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "linerate-open-"))(t) //nolint:usetesting // others may not enter those above t.TempDir
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

// otherUser is the ID of a user other than root.
const otherUser = 65534

// TestForeignState: root finds a state directory that another user could have filled: by --state,
// by LINERATE_STATE, as an agent, and as the job for the next start. It trusts nothing in it.
func TestForeignState(t *testing.T) {
	n := netnsBeside(t)
	before := n.knobs(t, "far")
	for name, prepare := range map[string]func(dir string) string{
		"of another user": func(dir string) string { return dir },
		"a link to it": func(dir string) string {
			link := filepath.Join(n.dir, "link")
			must.Do(t, errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(dir, link)))
			return link
		},
		"below it": func(dir string) string { return filepath.Join(dir, "linerate") },
	} {
		dir := filepath.Join(t.TempDir(), "home")
		state := prepare(dir)
		must.Do(t, os.MkdirAll(state, 0o755))
		// The forged record would take effect: the host has the value that it claims linerate
		// wrote.
		forged := journal.Record{Kind: journal.KindIntent, Transaction: "forged", Number: 1, Intent: &journal.Intent{
			Host: model.Near, Knob: sackKnob, Place: hostknob.Place{Mechanism: knob.Sysctl, Native: "net.ipv4.tcp_sack"}, Old: "0", New: before.sack,
		}}
		j := must.Get(journal.Open(state))(t)
		must.Do(t, j.Append(forged))
		must.Do(t, j.Close())
		must.Do(t, os.Chown(dir, otherUser, otherUser))
		for _, c := range []struct {
			args []string
			env  string
		}{
			{args: []string{"undo", "--state", state}},
			{args: []string{"undo", "--at-boot", "--state", state}},
			{args: []string{"undo"}, env: "LINERATE_STATE=" + state},
			{args: []string{"undo", "--kept"}, env: "LINERATE_STATE=" + state},
			{args: []string{"set", "tcp.timestamps=off", "--for", "1s"}, env: "LINERATE_STATE=" + state},
			{args: []string{"undo", "exec:" + farAddr + " ip netns exec " + n.far + " " + binary + " agent --state " + state}},
		} {
			cmd := n.inside(t, "far", c.args...)
			cmd.Env = append(cmd.Env, c.env)
			r := run(t, cmd)
			must.True(t, r.code != 0 && strings.Contains(r.err, "belongs to another user (uid 65534)"), "%s: %q: exit code %d\n%s%s", name, c.args, r.code, r.out, r.err)
			must.True(t, !strings.HasPrefix(c.args[0], "undo") || len(c.args) <= 1 || c.args[1] != "--state" || strings.Contains(r.err, "root keeps its state only where no other user may write"), "%s: no hint: %s", name, r.err)
			now := n.knobs(t, "far")
			must.Need(t, now == before, "%s: %q: it believed what another user wrote: %+v, before %+v", name, c.args, now, before)
		}
	}
	// A user may keep the user's own state anywhere.
	own := filepath.Join(t.TempDir(), "own")
	must.Do(t, os.Mkdir(own, 0o777))
	must.Do(t, os.Chmod(own, 0o777))
	for dir := own; dir != os.TempDir(); dir = filepath.Dir(dir) {
		must.Do(t, os.Chmod(dir, 0o755))
	}
	must.Do(t, os.Chown(own, otherUser, otherUser))
	program := filepath.Join(own, "linerate")
	must.Do(t, os.Link(binary, program)) // a copy could not run while a forked process has the written file open
	cmd := n.inside(t, "far", "undo", "--state", filepath.Join(own, "state"))
	cmd.Args = append([]string{"ip", "netns", "exec", n.far, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program}, cmd.Args[5:]...)
	r := run(t, cmd)
	must.True(t, r.code == 0 && r.out == "nothing to undo\n", "a user's own: exit code %d\n%s%s", r.code, r.out, r.err)
}
