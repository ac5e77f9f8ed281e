package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

const (
	kept = "sysctl.d/zz-linerate.conf" // below etcOf
	// older is the earlier content of that file, without a line feed at its end.
	older = "# by hand\nnet.ipv4.tcp_ecn = 1"
)

const keepProfile = `profile: 2
title: tall buffers
hosts:
  - role: receiver
    knobs: {tcp.recv_buffer_max: 4MiB, tcp.sack: off}
`

// ownEtc returns lines of sh that give a mount namespace its own system files, which stay in dir.
func ownEtc(dir string) string {
	var b strings.Builder
	for _, name := range []string{"sysctl.d", "modules-load.d", "systemd"} {
		fmt.Fprintf(&b, "mkdir -p %s/%s /etc/%s && mount --bind %s/%s /etc/%s\n", dir, name, name, dir, name, name)
	}
	return b.String()
}

// keepSession stores a session whose only verdict on a setting of the far host is outcome.
func keepSession(t testing.TB, db, id string, outcome model.Outcome) {
	t.Helper()
	st := must.Get(sqlite.Open(t.Context(), db))(t)
	defer st.Close()
	now := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	s := model.Session{
		ID: id, Kind: model.KindRun, Title: "tall", Created: now, Ended: now.Add(time.Minute), State: model.SessionDone,
		WireRate: fact.Unknown[units.BitRate]("test"),
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To},
			Settings: []model.Setting{{Name: "current"}, {Name: "tall", Assignments: []model.Assignment{
				{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "4194304"}, {Host: model.Far, Knob: "tcp.sack", Value: "0"},
			}}},
		},
		Verdicts: []model.Verdict{{
			Setting: "tall", Outcome: outcome, Direction: model.To, Metric: model.Goodput, Estimate: 0.1,
			Interval: model.Interval{Low: 0.05, High: 0.15, Confidence: 0.95}, Blocks: 6,
		}},
	}
	must.Do(t, st.CreateSession(t.Context(), s))
}

// keepBySSH returns the far host behind an sshd whose system files are in etc, with a login shell
// that is not Bourne's and prints text.
func (n *netns) keepBySSH(t testing.TB, etc string) *sshtest.Server {
	t.Helper()
	must.Do(t, os.Mkdir(n.sshTemp(), 0o700))
	root := sshtest.User{Files: map[string]string{".cshrc": "echo welcome to this machine\n"}}
	if _, err := exec.LookPath("csh"); err == nil {
		root.Shell = "/bin/csh"
	}
	return sshtest.Start(t, sshtest.Options{
		Users: map[string]sshtest.User{"root": root}, Namespace: n.far, Proxy: true, HostName: farAddr, Setup: ownEtc(etc),
		Env: map[string]string{"LINERATE_STATE": n.state("far"), "TMPDIR": n.sshTemp()},
	})
}

// olderFile puts another file in the place of linerate's.
func olderFile(t testing.TB, etc string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Join(etc, "sysctl.d"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(etc, kept), []byte(older), 0o640))
}

// isOlder requires that file unchanged, and nothing beside it.
func isOlder(t testing.TB, etc string) {
	t.Helper()
	info := must.Get(os.Stat(filepath.Join(etc, kept)))(t)
	entries, _ := os.ReadDir(filepath.Join(etc, "sysctl.d"))
	got := file(t, etc, kept)
	must.True(t, got == older && info.Mode().Perm() == 0o640 && len(entries) == 1, "%q with mode %v, beside %v", got, info.Mode(), entries)
}

// TestKeepOverSSH goes the whole way on a host that has only an sshd: measure, set, undo, keep,
// and undo what was kept.
func TestKeepOverSSH(t *testing.T) {
	n := netnsBeside(t)
	etc := filepath.Join(n.dir, "etc")
	olderFile(t, etc)
	s := n.keepBySSH(t, etc)
	keepSession(t, n.db(), "20261121T130000-beef", model.Better)
	keepSession(t, n.db(), "20261121T140000-dead", model.Undecided)
	do := func(code int, args ...string) result {
		t.Helper()
		return run(t, withSSH(n.inside(t, "near", append(args, "--keep-agent")...), s)).exits(t, code) // copied once
	}
	do(0, "test", "root@far", "-t", "0.2s", "--omit", "0s", "--idle", "0s")
	do(0, append(setArgs("root@far"), "--for", "1s")...)
	do(0, "undo", "root@far")

	// A setting that did not prove better is refused, with its state.
	r := do(2, "keep", "20261121T140000-dead", "root@far", "--yes")
	has(t, "an undecided session", r.err, "no setting that changes a host proved better", "goodput to: undecided", "--setting NAME --anyway")
	r = do(2, "keep", "20261121T140000-dead", "root@far", "--yes", "--setting", "tall")
	has(t, "an undecided setting", r.err, "no proof that it is better: goodput to: undecided", "--anyway")
	isOlder(t, etc)

	r = do(0, "keep", "20261121T130000-beef", "root@far", "--dry-run", "--json")
	must.OK(t, validate("linerate/keep/v1", r.out))
	has(t, "the dry run", r.err, "-net.ipv4.tcp_ecn = 1", "+net.ipv4.tcp_sack = 0", "no longer holds \"net.ipv4.tcp_ecn = 1\"")
	isOlder(t, etc)

	r = do(0, "keep", "20261121T130000-beef", "root@far", "--yes")
	has(t, "keep", r.out, "kept on ", "/etc/"+kept, "tcp.sack is on now, and off from the next start", "linerate set tcp.recv_buffer_max=4194304 tcp.sack=0 root@far", "linerate undo --kept root@far takes it back")
	has(t, "the file", file(t, etc, kept), "evidence: session 20261121T130000-beef, setting \"tall\"", "net.ipv4.tcp_sack = 0\n", " 4194304\n", "linerate undo --kept")
	n.restored(t) // no running value has changed
	r = do(0, "keep", "--list", "root@far", "--json")
	must.OK(t, validate("linerate/kept/v1", r.out))
	has(t, "the list", r.out, "session 20261121T130000-beef, setting \\\"tall\\\"", "/etc/"+kept, "tcp.sack")
	do(0, "keep", "20261121T130000-beef", "root@far", "--yes").prints(t, "nothing to do: all of it is kept already")
	has(t, "knobs", do(0, "knobs", "root@far", "--match", "tcp.sack").out, "/etc/"+kept)

	r = do(0, "undo", "--kept", "root@far", "--json")
	must.OK(t, validate("linerate/undo/v1", r.out))
	isOlder(t, etc)
	r = do(0, "undo", "--kept", "root@far")
	must.True(t, r.out == "nothing is kept\n", "once more: %s", r.out)
	must.Len(t, n.copies(t), 0, "left")
}

// TestKeepAsks answers the prompt on a terminal, and keeps what was confirmed.
func TestKeepAsks(t *testing.T) {
	n := netnsBeside(t)
	etc := filepath.Join(n.dir, "etc")
	olderFile(t, etc)
	s := n.keepBySSH(t, etc)
	tt := onTerminal(t, withSSH(n.inside(t, "near", setArgs("root@far", "--keep-agent")...), s))
	tt.asked(t, "y\n")
	tt.wait(t, patience).succeeds(t)
	for _, answer := range []string{"n\n", "\x04"} {
		n.answerKeep(t, s, answer, "declined: nothing was written")
		isOlder(t, etc)
	}
	n.answerKeep(t, s, "y\n", "kept on ")
	has(t, "the file", file(t, etc, kept), "confirmed by hand with linerate set", "net.ipv4.tcp_sack = 0\n", " 65536\n")
	r := run(t, withSSH(n.inside(t, "near", "undo", "root@far", "--keep-agent"), s))
	must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") == 2, "undo: exit code %d\n%s%s", r.code, r.out, r.err)
	r = run(t, withSSH(n.inside(t, "near", "keep", "root@far", "--yes", "--keep-agent"), s)).ends(t, 2, "nothing was confirmed on ") // after undo
	run(t, withSSH(n.inside(t, "near", "undo", "--kept", "root@far", "--keep-agent"), s)).ends(t, 0)
	isOlder(t, etc)
}

func (n *netns) answerKeep(t testing.TB, s *sshtest.Server, answer, says string) {
	t.Helper()
	tt := onTerminal(t, withSSH(n.inside(t, "near", "keep", "root@far", "--keep-agent"), s))
	must.Until(t, "the question", func() bool { return strings.Contains(tt.shown.String(), "write these files on ") })
	must.Get(tt.master.WriteString(answer))(t)
	must.Equal(t, tt.wait(t, patience).code, 0, "%q: exit code", answer)
	must.Until(t, "the terminal to say "+says, func() bool { return strings.Contains(tt.shown.String(), says) })
}

// keptHere runs a shell script on a machine with its own system files, in $W/etc, its own
// network, and a profile.
func keptHere(t testing.TB, script string) (etc string, r result) {
	t.Helper()
	must.SkipIf(t, os.Geteuid() != 0, "needs root to lay files over those of the system")
	dir, r := isolated(t, ownEtc(`$W/etc`)+`
cat > $W/tall.yaml <<'END'
`+keepProfile+`END
`+script)
	return filepath.Join(dir, "etc"), r
}

// TestKeepEdited leaves alone a mask in place of its file, and a file edited after keep, and
// reports them.
func TestKeepEdited(t *testing.T) {
	t.Parallel()
	etc, r := keptHere(t, `
ln -s /dev/null /etc/`+kept+`
code=0; linerate keep $W/tall.yaml --yes || code=$?
echo mask $code
rm /etc/`+kept+`
linerate keep $W/tall.yaml --yes
echo '# mine' >> /etc/`+kept+`
code=0; linerate undo --kept || code=$?
echo undo $code
code=0; linerate keep $W/tall.yaml --yes || code=$?
echo keep $code
code=0; linerate undo --kept --json > $W/json || code=$?
echo json $code`)
	has(t, "stdout", r.out, "left alone: changed by another program since; there was no such file before linerate", "mask 4\n", "undo 7\n", "keep 4\n", "json 7\n")
	has(t, "stderr", r.err, "masks every file called zz-linerate.conf, in all folders; if the mask is not needed, remove it by hand: rm /etc/", "1 of 1 files not taken back",
		kept+":13: it was edited by hand after linerate wrote it on 20", `; writing it again would lose "# mine"; move it away by hand, and keep again: mv /etc/`)
	got := file(t, etc, kept)
	must.True(t, strings.HasSuffix(got, "\n# mine\n"), "the file is %q", got)
	must.OK(t, validate("linerate/undo/v1", file(t, filepath.Dir(etc), "json")))
}

// TestKeepBesideAUnit leaves out what a unit sets after the file, and says what to change.
func TestKeepBesideAUnit(t *testing.T) {
	t.Parallel()
	_, r := keptHere(t, `
mkdir -p /etc/systemd/system/multi-user.target.wants
printf '[Service]\nExecStart=/sbin/sysctl -w net.ipv4.tcp_sack=1\n' > /etc/systemd/system/mine.service
ln -s ../mine.service /etc/systemd/system/multi-user.target.wants/mine.service
linerate keep $W/tall.yaml --yes`)
	has(t, "stdout", r.succeeds(t).out, "tcp.recv_buffer_max is ")
	has(t, "stderr", r.err, `/etc/systemd/system/mine.service:2 sets it to "1" at every start`, "change or remove that line first")
	must.True(t, strings.Count(r.err, "mine.service") == 1 && !strings.Contains(r.out, "tcp.sack") && !strings.Contains(r.out, "tcp_sack ="), "it promises, or writes, what does not last:\n%s", r.out)
}

// TestKeepFullDisk has no room, first for the file and then for its backup: nothing is left of
// the attempt.
func TestKeepFullDisk(t *testing.T) {
	t.Parallel()
	for _, full := range []string{"/etc/sysctl.d", "$LINERATE_STATE"} {
		_, r := keptHere(t, `
mkdir -p `+full+`
mount -t tmpfs -o size=16k,mode=700 none `+full+`
printf '`+strings.ReplaceAll(older, "\n", `\n`)+`' > /etc/`+kept+`
cp /etc/`+kept+` $W/before
dd if=/dev/zero of=`+full+`/fill bs=4k 2>/dev/null || true
code=0; linerate keep $W/tall.yaml --yes 2> $W/err || code=$?
echo code $code
cmp $W/before /etc/`+kept+` && echo as before
rm `+full+`/fill
ls -A /etc/sysctl.d
linerate keep --list
linerate keep $W/tall.yaml --yes > /dev/null
grep -c tcp_sack /etc/`+kept+`
linerate undo --kept > /dev/null
cmp $W/before /etc/`+kept+` && echo as before again
cat $W/err`)
		has(t, full, r.out, "code 1\nas before\nzz-linerate.conf\nnothing is kept\n", "as before again", "no space left on device")
		must.True(t, r.code == 0, "%s: exit code %d\n%s%s", full, r.code, r.out, r.err)
	}
}

// TestKeepBothOrNone: this machine's disk is full when HOST already has its files: they are
// restored.
func TestKeepBothOrNone(t *testing.T) {
	t.Parallel()
	etc, r := keptHere(t, `
printf 'profile: 2\nhosts:\n  - {role: both, knobs: {tcp.sack: off}}\n' > $W/both.yaml
mkdir -p $W/faretc/sysctl.d /etc/sysctl.d
printf 'before\n' > $W/faretc/sysctl.d/`+kept[len("sysctl.d/"):]+`
cat > $W/far <<-EOF
	#!/bin/sh
	exec unshare -m sh -c 'mount --bind $W/faretc /etc && exec $(command -v linerate) agent --state $W/farstate'
	EOF
chmod +x $W/far
mount -t tmpfs -o size=16k none /etc/sysctl.d
dd if=/dev/zero of=/etc/sysctl.d/fill bs=4k 2>/dev/null || true
code=0; linerate keep $W/both.yaml --both --yes "exec:127.0.0.1 $W/far" 2> $W/err || code=$?
echo code $code
cat $W/faretc/`+kept+` $W/err
rm /etc/sysctl.d/fill
linerate keep $W/both.yaml --both --yes "exec:127.0.0.1 $W/far"
grep -c tcp_sack $W/faretc/`+kept+` /etc/`+kept)
	has(t, "the failure", r.out, "code 1\nbefore\n", "no space left on device", "its files are as they were")
	must.True(t, r.code == 0 && !strings.Contains(r.out, "not taken back"), "exit code %d\n%s%s%s", r.code, r.out, r.err, etc)
}

// TestKeepKilled kills keep after each of its steps; undo --kept restores the files from there.
func TestKeepKilled(t *testing.T) {
	t.Parallel()
	begin := `
printf '` + strings.ReplaceAll(older, "\n", `\n`) + `' > /etc/` + kept + `; chmod 640 /etc/` + kept + `
export LINERATE_TEST_MAIN=1
`
	etc, r := keptHere(t, begin+keepStepsVar+`=$W/steps `+os.Args[0]+` keep $W/tall.yaml --yes
cp -p /etc/`+kept+` $W/written; `+os.Args[0]+` undo --kept`)
	r.succeeds(t)
	isOlder(t, etc)
	steps := strings.Split(strings.TrimSpace(file(t, filepath.Dir(etc), "steps")), "\n")
	must.Need(t, len(steps) >= 5, "only %d steps: %q", len(steps), steps)
	written := 0
	for i, step := range steps {
		etc, r := keptHere(t, begin+fmt.Sprintf(`code=0
%s=%d %s keep $W/tall.yaml --yes || code=$?
echo keep ended with $code
if grep -q tcp_sack /etc/%s; then echo written; fi
%s undo --kept`, keepKillVar, i+1, os.Args[0], kept, os.Args[0]))
		must.True(t, r.code == 0 && strings.Contains(r.out, "keep ended with 137\n"), "%q: exit code %d\n%s%s", step, r.code, r.out, r.err)
		written += strings.Count(r.out, "\nwritten\n")
		isOlder(t, etc)
	}
	must.True(t, written != 0 && written != len(steps), "%d of %d kills left the new file", written, len(steps))
	t.Logf("steps: %q; %d after the file was there", steps, written)
}

// TestKeepIsRead lets the system's own sysctl(8) apply what was kept, with only the settings of
// this network, and detects another file that takes precedence.
func TestKeepIsRead(t *testing.T) {
	t.Parallel()
	needProgram(t, "sysctl")
	_, r := keptHere(t, `
linerate keep $W/tall.yaml --yes > /dev/null
sysctl --system --pattern '^net\.ipv4\.tcp_(sack|rmem)$' > /dev/null
cat /proc/sys/net/ipv4/tcp_sack /proc/sys/net/ipv4/tcp_rmem
linerate knobs --match tcp.sack
linerate keep $W/tall.yaml --dry-run
echo 'net.ipv4.tcp_sack = 1' > /etc/sysctl.d/zzz-other.conf
linerate keep $W/tall.yaml --dry-run 2>&1
linerate undo --kept > /dev/null
echo 'net.ipv4.tcp_sack = 1' > /etc/sysctl.d/99-other.conf
rm /etc/sysctl.d/zzz-other.conf
linerate keep $W/tall.yaml --yes --json 2> /dev/null > $W/json
echo 'net.ipv4.tcp_sack = 1' > /etc/sysctl.d/zzz-other.conf
linerate undo --kept > /dev/null
linerate keep $W/tall.yaml --yes`)
	r.succeeds(t)
	has(t, "stdout", r.out, "0\n4096\t", "\t4194304\n", "/etc/"+kept+":", "nothing was written", "left out: tcp.sack=0: /etc/sysctl.d/zzz-other.conf:1: sysctl/net.ipv4.tcp_sack would be 1 after the next start")
	has(t, "stderr", r.err, "left out: tcp.sack=0: /etc/sysctl.d/zzz-other.conf:1: ")
	must.True(t, !strings.Contains(r.out+r.err, "99-other.conf"), "it names a file that counts less\n%s%s", r.out, r.err)
}

// TestKeepJoins keeps a second profile without losing the first one.
func TestKeepJoins(t *testing.T) {
	t.Parallel()
	etc, r := keptHere(t, `
linerate keep $W/tall.yaml --yes > /dev/null
printf 'profile: 2\nhosts:\n  - {role: both, knobs: {tcp.timestamps: off, tcp.sack: on}}\n' > $W/more.yaml
linerate keep $W/more.yaml --yes
cp /etc/`+kept+` $W/both
linerate undo --kept`)
	r.succeeds(t)
	has(t, "the file", file(t, filepath.Dir(etc), "both"), "net.ipv4.tcp_timestamps = 0\n", "net.ipv4.tcp_sack = 1\n", " 4194304\n", "and what was kept before: profile ")
	has(t, "stderr", r.err, "tcp.recv_buffer_max=4194304 stays, which was kept before")
	entries, _ := os.ReadDir(filepath.Join(etc, "sysctl.d"))
	must.True(t, len(entries) == 0, "left: %v", entries)
}

// TestKeepWithoutRights: the error says what is needed.
func TestKeepWithoutRights(t *testing.T) {
	t.Parallel()
	_, r := keptHere(t, `
chmod 755 $W $(dirname $W)
mkdir -m 777 $W/nobody
code=0
LINERATE_STATE=$W/nobody/state setpriv --reuid 65534 --clear-groups linerate keep $W/tall.yaml --yes 2> $W/nobody/err || code=$?
echo code $code; cat $W/nobody/err; echo $(ls -A /etc/sysctl.d | wc -l) files`)
	must.SkipIf(t, strings.Contains(r.out+r.err, "setpriv: ") || strings.Contains(r.out, "code 126") || strings.Contains(r.out, "code 127"), "cannot become another user here: %s%s", r.out, r.err)
	has(t, "stdout", r.out, "code 4\n", "nothing can be kept on this machine: linerate has no root rights", "over ssh: --sudo", "\n0 files\n")
}

// TestFirstHour08PastedKeep: the command at the end of a report works unchanged, and uses the
// smallest level that is good enough.
func TestFirstHour08PastedKeep(t *testing.T) {
	n := netnsBeside(t)
	s := model.Session{
		ID: "20261121T130000-1eve", Kind: model.KindRun, Near: "this machine", Far: n.agent("far"), Created: time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC),
		State: model.SessionDone, WireRate: fact.Unknown[units.BitRate]("test"),
		Plan:     model.Plan{Baseline: "current", Directions: []model.Direction{model.To}, Settings: []model.Setting{{Name: "current"}}},
		Plateaus: []model.Plateau{{Direction: model.To, Metric: model.Goodput, Decided: true, Level: "4MiB", Tolerance: 5}},
	}
	for _, name := range []string{"4MiB", "16MiB"} {
		value := must.Get(units.ParseBytes(name))(t)
		s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: name, Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: fmt.Sprint(int64(value))}}})
		s.Verdicts = append(s.Verdicts, model.Verdict{
			Setting: name, Outcome: model.Better, Direction: model.To, Metric: model.Goodput, Estimate: 0.1,
			Interval: model.Interval{Low: 0.05, High: 0.15, Confidence: 0.95}, Blocks: 6,
		})
	}
	st := must.Get(sqlite.Open(t.Context(), n.db()))(t)
	defer st.Close()
	must.Do(t, st.CreateSession(t.Context(), s))
	report := run(t, n.command(t, "show", "last")).out
	_, line, found := strings.Cut(report, "linerate keep ")
	line, _, _ = strings.Cut(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(line, ""), "\n") // a long one is broken
	must.Need(t, found && strings.Contains(line, s.ID), "no command at the end of\n%s", report)
	cmd := n.prepare(exec.CommandContext(t.Context(), "ip", "netns", "exec", n.near, "sh", "-c", "linerate keep "+line+" --dry-run"))
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	r := run(t, cmd)
	must.Need(t, r.code == 0, "linerate keep %s: exit code %d\n%s%s", line, r.code, r.out, r.err)
	has(t, "the pasted command", r.out+r.err, "4MiB is taken: the smallest level within 5 % of the best", "proved better: 16MiB", " 4194304")
}
