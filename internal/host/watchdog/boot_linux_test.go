package watchdog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/must"
)

// unit is the undo job's unit file on the machines of these tests, below their root.
const unit = "etc/systemd/system/linerate-undo.service"

// bootBench is a machine where one setting changes and systemctl reports the job as enabled
// if its link exists.
func bootBench(t *testing.T) bench {
	t.Helper()
	b := fakeBench(t)
	b.changes = b.changes[2:]
	b.root = t.TempDir()
	program := filepath.Join(b.root, "usr/bin/systemctl")
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(b.root, "run/systemd/system"), 0o755), os.MkdirAll(filepath.Dir(program), 0o755),
		os.WriteFile(program, []byte("#!/bin/sh\n[ -L \"$(dirname \"$0\")/../../etc/systemd/system/multi-user.target.wants/$2\" ] && echo enabled\n"), 0o755)))
	return b
}

func exists(path string) bool { return must.Err(os.Lstat(path)) == nil }

// clean demands that no part of a job is left.
func (b bench) clean(t *testing.T, dir, when string) {
	t.Helper()
	must.True(t, !exists(filepath.Join(b.root, "etc")) && !exists(filepath.Join(dir, "atboot")), "%s: something of the job is left", when)
}

// fileBackend keeps a setting in a file, so it survives a restart.
type fileBackend string

func (f fileBackend) Read(context.Context) (string, error) {
	b, err := os.ReadFile(string(f))
	return string(bytes.TrimSpace(b)), err
}

func (f fileBackend) Check(context.Context, string) error { return nil }

func (f fileBackend) Write(_ context.Context, raw string) error {
	return os.WriteFile(string(f), []byte(raw+"\n"), 0o644)
}

// lasting returns b's host with settings that survive a restart.
func lasting(procSys string) hostknob.Host {
	return hostknob.Host{ProcSys: procSys, Backend: func(p hostknob.Place) (hostknob.Backend, error) {
		return fileBackend(filepath.Join(procSys, strings.ReplaceAll(p.Native, ".", "/"))), nil
	}}
}

// bootMain is the job's program: it knows only linerate undo --at-boot --state DIR.
func bootMain() error {
	if len(os.Args) != 5 || !slices.Equal(os.Args[1:4], []string{"undo", "--at-boot", "--state"}) {
		return fmt.Errorf("arguments %q", os.Args[1:])
	}
	changes, err := Recover(context.Background(), Config{
		Dir: os.Args[4], Host: lasting(os.Getenv(configVar)), Talk: os.Stdout, After: interruptions(),
	})
	for _, c := range changes {
		fmt.Println(c.Knob, c.State)
	}
	return err
}

// restart has the machine start again. It rewrites the journal without the origin of its
// changes, as on a system that cannot tell its starts apart and keeps its settings, starts
// the job as the bench's systemd would, and returns the job's output.
func (b bench) restart(t *testing.T, dir string, environment ...string) string {
	t.Helper()
	records, damage, err := journal.Read(dir)
	must.Need(t, err == nil && len(damage) == 0, "%v, %v", damage, err)
	for _, path := range journal.Files(dir) {
		must.Do(t, os.Remove(path))
	}
	j := must.Get(Config{}.open(t.Context(), journal.Dir{Path: dir}))(t) // the kernel closes a dead process's pipe before its lock
	for _, r := range records {
		if r.Intent != nil {
			r.Intent.Origin.Boot, r.Intent.Origin.Netns = "", 0
		}
		must.Do(t, j.Append(r))
	}
	must.Do(t, j.Close())
	return b.boot(t, environment...)
}

// boot starts the job if it is enabled.
func (b bench) boot(t *testing.T, environment ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, filepath.Dir(unit), "multi-user.target.wants", filepath.Base(unit)))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	_, line, ok := strings.Cut(string(text), "\nExecStart=")
	must.Need(t, err == nil && ok, "%v\n%s", err, text)
	line, _, _ = strings.Cut(line, "\n")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.NewReplacer("$$", "$", "%%", "%").Replace(line)) // see package atboot
	cmd.Env = append(append(os.Environ(), environment...), roleVar+"=boot", configVar+"="+b.host.ProcSys)
	out, err := cmd.CombinedOutput()
	must.Need(t, err == nil || len(environment) != 0, "the job: %v\n%s", err, out)
	return string(out)
}

// TestAtBoot: the watchdog installs the job after the intents are in the journal and before
// the first write, and removes it when the change ends, in any way.
func TestAtBoot(t *testing.T) {
	for name, environment := range map[string]string{"undo": "", "confirmation": confirmVar + "=1", "deadline before the first write": deadlineVar + "=1ms"} {
		t.Run(name, func(t *testing.T) {
			b := bootBench(t)
			before := b.values(t)
			path, dir := filepath.Join(t.TempDir(), "steps"), t.TempDir()
			crash := crashVar + "=0" // an agent whose deadline has passed may fail
			out := b.runIn(t, dir, environment, crash, stepsVar+"="+path)
			steps := stepsIn(t, path)
			intent, installed := slices.Index(steps, "intent tcp.sack"), slices.Index(steps, "job installed")
			must.Need(t, intent == 0 && installed >= 1 && slices.Index(steps, "job removed") == len(steps)-1, "steps %q\n%s", steps, out)
			write := slices.Index(steps, "write tcp.sack")
			must.True(t, write < 0 || write >= installed, "written before the job was installed: %q", steps)
			must.True(t, strings.Count(out, BootMark+"installed "+b.root) == 1 && strings.Count(out, BootMark+"removed "+b.root) == 1, "not told:\n%s", out)
			b.clean(t, dir, name)
			if name != "confirmation" {
				b.expect(t, before, name)
			}
		})
	}
}

// TestAtBootAgentKilled: a watchdog whose agent was killed removes the job too.
func TestAtBootAgentKilled(t *testing.T) {
	b := bootBench(t)
	before := b.values(t)
	steps := b.steps(t)
	for _, step := range []string{"job installed", "applied tcp.sack"} {
		dir, _ := b.run(t, fmt.Sprintf("%s=%d:agent", crashVar, slices.Index(steps, step)+1))
		b.expect(t, before, step)
		b.clean(t, dir, step)
	}
}

// TestAtBootCrash kills the agent and its watchdog after every step. With or without a
// restart afterwards, every setting is undone and nothing of the job is left.
func TestAtBootCrash(t *testing.T) {
	b := bootBench(t)
	before := b.values(t)
	steps := b.steps(t)
	must.Need(t, len(steps) >= 16, "%d steps: %q", len(steps), steps)
	installed := slices.Index(steps, "job installed")
	for n, step := range steps {
		when := fmt.Sprintf("kill both after %q", step)
		crash := fmt.Sprintf("%s=%d:both", crashVar, n+1)
		dir, _ := b.run(t, crash)
		changed := b.values(t)["tcp.sack"] != before["tcp.sack"]
		must.True(t, !changed || n >= installed, "%s: a setting is changed and no job installed", when)
		said := b.restart(t, dir)
		b.expect(t, before, when+", restart")
		must.True(t, !changed || strings.Contains(said, "tcp.sack undone\n"), "%s: the job says %q", when, said)
		_, err := Recover(t.Context(), Config{Dir: dir, Host: lasting(b.host.ProcSys)}) // for a job that was not installed yet
		must.OK(t, err, "%s", when)
		b.clean(t, dir, when+", restart")
		if !strings.HasPrefix(step, "job") {
			continue
		}
		dir, _ = b.run(t, crash)
		must.OK(t, must.Err(Recover(t.Context(), Config{Dir: dir, Host: b.host})), "%s", when)
		b.expect(t, before, when)
		b.clean(t, dir, when)
	}
}

// TestAtBootCrashOfTheJob kills the job after each of its steps: the next start of the
// machine finishes the undo.
func TestAtBootCrashOfTheJob(t *testing.T) {
	b := bootBench(t)
	before := b.values(t)
	applied := slices.Index(b.steps(t), "applied tcp.sack") + 1
	for n := 0; ; n++ {
		dir, _ := b.run(t, fmt.Sprintf("%s=%d:both", crashVar, applied))
		path := filepath.Join(t.TempDir(), "steps")
		b.restart(t, dir, fmt.Sprintf("%s=%d:watchdog", crashVar, n+1), stepsVar+"="+path)
		last := len(stepsIn(t, path)) <= n // the job finished
		when := fmt.Sprintf("job killed after step %d", n+1)
		b.boot(t)
		b.expect(t, before, when)
		_, err := Recover(t.Context(), Config{Dir: dir, Host: lasting(b.host.ProcSys)}) // if the link was removed first
		must.OK(t, err, "%s", when)
		b.clean(t, dir, when)
		if last {
			must.True(t, n >= 8, "%d steps only: the test looks at nothing", n)
			return
		}
	}
}

// TestAtBootForgotten: after a restart that reset the setting by itself, the job closes the
// journal and removes itself.
func TestAtBootForgotten(t *testing.T) {
	b := bootBench(t)
	before := b.values(t)
	dir, _ := b.run(t, fmt.Sprintf("%s=%d:both", crashVar, slices.Index(b.steps(t), "applied tcp.sack")+1))
	b.reset(t, before)
	said := b.restart(t, dir)
	must.True(t, strings.Contains(said, "tcp.sack undone\n") && strings.Contains(said, BootMark+"removed "), "the job says %q", said)
	b.expect(t, before, "restart")
	b.clean(t, dir, "restart")
}

// TestAtBootLeavesWhatIsConfirmed: if the machine went down between a confirmation and the
// job's removal, the job undoes nothing.
func TestAtBootLeavesWhatIsConfirmed(t *testing.T) {
	b := bootBench(t)
	before := b.values(t)
	path := filepath.Join(t.TempDir(), "steps")
	b.runIn(t, t.TempDir(), confirmVar+"=1", stepsVar+"="+path)
	after := b.values(t)
	must.Need(t, after["tcp.sack"] != before["tcp.sack"], "it was not confirmed")
	b.reset(t, before)
	dir, _ := b.run(t, confirmVar+"=1", fmt.Sprintf("%s=%d:both", crashVar, slices.Index(stepsIn(t, path), "confirmed")+1))
	b.restart(t, dir)
	b.expect(t, after, "restart")
	b.clean(t, dir, "restart")
}

// TestAtBootRefused: if the job cannot be installed, nothing is changed.
func TestAtBootRefused(t *testing.T) {
	for name, spoil := range map[string]func(b bench) error{
		"no place": func(b bench) error { return os.RemoveAll(filepath.Join(b.root, "run")) },
		"taken": func(b bench) error {
			path := filepath.Join(b.root, unit)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("theirs"), 0o644))
		},
		"disabled": func(b bench) error {
			return os.WriteFile(filepath.Join(b.root, "usr/bin/systemctl"), []byte("#!/bin/sh\necho masked\nexit 1\n"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := bootBench(t)
			before := b.values(t)
			must.Do(t, spoil(b))
			var said bytes.Buffer
			dir := t.TempDir()
			t.Setenv(roleVar, "watchdog")
			c := must.Get(Start(t.Context(), Config{Dir: dir, Host: b.host, Root: b.root, AtBoot: true, Command: os.Args[:1], Talk: &said}))(t)
			changes, err := c.Apply(t.Context(), b.changes, time.Minute)
			must.True(t, err != nil && !slices.ContainsFunc(changes, func(c model.Change) bool { return c.State != model.ChangeUndone }),
				"Apply = %+v, %v", changes, err)
			want := name == "no place"
			must.True(t, errors.Is(err, errors.ErrUnsupported) == want, "errors.ErrUnsupported is %v: %v", !want, err)
			b.expect(t, before, name)
			must.OK(t, c.Close())
			must.True(t, !exists(filepath.Join(dir, "atboot")) && said.Len() <= 0, "something is left, or told: %s", said.String())
			text, err := os.ReadFile(filepath.Join(b.root, unit))
			must.True(t, name != "taken" || string(text) == "theirs", "%q, %v", text, err)
		})
	}
}

// TestAtBootChangedByHand: a job file that was edited is kept, and the watchdog reports its
// path.
func TestAtBootChangedByHand(t *testing.T) {
	b := bootBench(t)
	before := b.values(t)
	var said bytes.Buffer
	dir := t.TempDir()
	t.Setenv(roleVar, "watchdog")
	c := must.Get(Start(t.Context(), Config{Dir: dir, Host: b.host, Root: b.root, AtBoot: true, Command: os.Args[:1], Talk: &said}))(t)
	must.Get(c.Apply(t.Context(), b.changes, time.Minute))(t)
	path := filepath.Join(b.root, unit)
	must.Do(t, os.WriteFile(path, []byte("theirs"), 0o644))
	must.OK(t, c.Close())
	b.expect(t, before, "close")
	text, err := os.ReadFile(path)
	must.True(t, string(text) == "theirs", "%q, %v", text, err)
	must.Contain(t, said.String(), path+" was changed by another program and stays", "not told")
}

// TestBootLines: BootLines passes on complete lines with the mark, however the input is
// split.
func TestBootLines(t *testing.T) {
	var got bytes.Buffer
	w := BootLines(&got)
	long := BootMark + strings.Repeat("x", 2*maxTalk)
	for _, part := range []string{"panic: no\nat-", "boot: one\r\nat-boot: t", "wo", "\n at-boot: no\n", long, "\n", "at-boot: cut"} {
		must.Equal(t, must.Get(w.Write([]byte(part)))(t), len(part), "Write")
	}
	must.Equal(t, got.String(), "at-boot: one\nat-boot: two\n"+long[:maxTalk]+"\n")
}
