package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// isolated runs a shell script with mounts and a network of its own, so that it
// may fill disks and change settings. $W is a directory, linerate is in the path,
// and "$FAR" an agent behind loopback that keeps its journal in $W/far.
func isolated(t testing.TB, script string) (dir string, r result) {
	t.Helper()
	flags := "-mn"
	if os.Geteuid() != 0 {
		flags = "-Urmn"
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", flags, "sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up").CombinedOutput(); err != nil {
		t.Skipf("needs unshare %s with mount and ip: %v: %s", flags, err, out)
	}
	dir = t.TempDir()
	cmd := exec.CommandContext(t.Context(), "unshare", flags, "sh", "-c", "set -e\nip link set lo up\n"+script)
	cmd.Env = os.Environ()
	for key, value := range userEnv(dir) {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	cmd.Env = append(cmd.Env, "W="+dir, "FAR=exec:127.0.0.1 linerate agent --state "+filepath.Join(dir, "far"))
	return dir, run(t, cmd)
}

const (
	ceilingFile  = "/proc/sys/net/ipv4/tcp_rmem"
	shortOptions = " -n 256KiB --omit 0 --settle 10ms "
)

// file reads a file that a script left.
func file(t testing.TB, parts ...string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(parts...)))(t)
	return string(b)
}

// TestFullDiskUnderStore fills the disk of the results while an experiment runs.
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

// TestFullDiskUnderJournal has no room for a journal, on either end: nothing may
// be changed then.
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

// TestReadOnlyHome demands advice where results cannot be kept, and that the
// advice is good.
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
