package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/must"
)

// Variables that tell the far host's watchdog what to do.
const (
	crashVar = "LINERATE_CRASH"       // N:WHO: after step N, from 1, kill them, see members
	ownerVar = "LINERATE_CRASH_DIR"   // directory in the command lines of all victims
	onceVar  = "LINERATE_CRASH_ONCE"  // file that prevents a second time
	stepsVar = "LINERATE_CRASH_STEPS" // file to which the name of every step is appended
)

// crashPoint returns what this process does after each step of a change.
func crashPoint() func(step string) {
	if pause := faultPoint(); pause != nil {
		return pause
	}
	number, who, _ := strings.Cut(os.Getenv(crashVar), ":")
	at, _ := strconv.Atoi(number) // 0, no step, without the variable
	log := os.Getenv(stepsVar)
	if at == 0 && log == "" {
		return nil
	}
	n := 0
	return func(step string) {
		n++
		if log != "" {
			orPanic(addLine(log, step))
		}
		if n != at || !first(os.Getenv(onceVar)) {
			return
		}
		owner, controller := os.Getenv(ownerVar), parent(os.Getppid())
		if !named(controller, owner) {
			return // another process's child by now
		}
		for _, pid := range relatives(controller, owner).members(who) {
			orPanic(syscall.Kill(pid, syscall.SIGKILL))
			if pid == os.Getpid() {
				select {} // until the signal arrives
			}
		}
	}
}

// first reports whether this is the first call for a file; always without a file.
func first(path string) bool {
	if path == "" {
		return true
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
	return err == nil && f.Close() == nil
}

func addLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// orPanic is for a process without a test to fail.
func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

// family are the processes of a session; 0 for a missing one.
type family struct{ controller, agentNear, watchdogNear, agentFar, watchdogFar int }

// relatives finds the family of a controller whose hosts keep their state in owner: only
// processes whose command lines contain that are ever killed.
func relatives(controller int, owner string) family {
	f := family{controller: controller}
	all := processes()
	for pid, of := range all {
		switch {
		case of != controller || !named(pid, "agent"):
		case named(pid, owner+"/near"):
			f.agentNear = pid
		case named(pid, owner+"/far"):
			f.agentFar = pid
		}
	}
	for pid, of := range all {
		switch {
		case of <= 1 || !named(pid, "watchdog"):
		case of == f.agentNear:
			f.watchdogNear = pid
		case of == f.agentFar:
			f.watchdogFar = pid
		}
	}
	return f
}

// members returns the processes of f that who names, in the order in which they are killed.
func (f family) members(who string) []int {
	all := map[string][]int{
		"controller": {f.controller}, "agent-near": {f.agentNear}, "agent-far": {f.agentFar}, "agents": {f.agentFar, f.agentNear},
		"all-but-watchdogs": {f.controller, f.agentNear, f.agentFar},
		"watchdog-far":      {f.watchdogFar},
		"far-host":          {f.agentFar, f.watchdogFar}, // as when its machine restarts
		"both-hosts":        {f.watchdogNear, f.agentNear, f.agentFar, f.watchdogFar},
		"whole-machine":     {f.controller, f.watchdogNear, f.agentNear, f.agentFar, f.watchdogFar},
	}[who]
	return slices.DeleteFunc(all, func(pid int) bool { return pid <= 1 })
}

// processes returns all processes with their parents.
func processes() map[int]int {
	all := map[int]int{}
	for _, pid := range allPIDs() {
		all[pid] = parent(pid)
	}
	return all
}

// allPIDs returns all processes. Tests that wait for the end of some ask often: what else /proc
// says of each process costs the kernel 20 times as much.
func allPIDs() []int {
	entries, _ := os.ReadDir("/proc")
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// parent reads the fourth field of /proc/PID/stat (proc_pid_stat(5)), 0 for none:
//
//	4711 (linerate) S 4700 4711 4700 0 -1 ...
func parent(pid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	words := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(words) < 2 {
		return 0
	}
	of, _ := strconv.Atoi(words[1])
	return of
}

// named reports whether a process has an argument that is a word, or contains a path. One that
// was forked and is not another program yet has the arguments of its parent.
func named(pid int, word string) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return word != "" && slices.ContainsFunc(strings.Split(string(b), "\x00"), func(arg string) bool {
		return arg == word || strings.HasPrefix(word, "/") && strings.Contains(arg, word)
	})
}

// crashSetting is one setting of two knobs on both hosts.
const crashSetting = "tcp.recv_buffer_max=64KiB tcp.sack=off"

// crashArgs returns an experiment of two blocks. The window keeps the load on this machine small;
// more sets the length of a run.
func (n *netns) crashArgs(far string, more ...string) []string {
	return append([]string{
		"run", "--from", n.agent("near"), "--far", far, "--factor", "tcp.recv_buffer_max=64KiB", "--factor", "tcp.sack=off",
		"--baseline", crashSetting, "-w", "16KiB", "--omit", "0s", "--settle", "0s",
		"--blocks", "2", "--no-twin",
	}, more...)
}

// quick ends a run after this many bytes: a process that must wait for the CPU measures longer,
// but never nothing.
func quick() []string { return []string{"-n", "64KiB"} }

// crashSteps learns the steps of a change from an experiment without a crash: its rehearsal and
// its two runs have the same ones.
func crashSteps(t *testing.T) []string {
	t.Helper()
	n := newNetns(t)
	log := filepath.Join(n.dir, "steps")
	run(t, n.command(t, n.crashArgs(n.agent("far", stepsVar+"="+log), quick()...)...)).succeeds(t)
	n.restored(t)
	steps := strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile(log))(t))), "\n")
	each := len(steps) / 3
	// 2 knobs: intent, write, read, applied; look, restore, undone; and closed once.
	must.Need(t, each == 2*7+1 && slices.Equal(steps[:each], steps[each:2*each]) && slices.Equal(steps[:each], steps[2*each:]), "%d steps: %q", len(steps), steps)
	return steps
}

// TestCrash kills processes of a session after a step of its second run's change: each group of
// them after one step, and with the build tag slow after every step. Whatever is killed, both hosts get
// their old values back, and earlier measurements are kept.
func TestCrash(t *testing.T) {
	rootBeside(t)
	began := time.Now()
	steps := crashSteps(t)
	cases := map[string]func(*testing.T){}
	for i, who := range []string{
		"controller", "agent-near", "agent-far", "agents", "all-but-watchdogs", "watchdog-far",
		"far-host", "both-hosts", "whole-machine",
	} {
		each := len(steps) / 3
		for k := range each {
			if must.Slow || k == (3+2*i)%each {
				cases[fmt.Sprintf("%02d %s/%s", k+1, steps[k], who)] = func(t *testing.T) { crashOnce(t, steps, 2*each+k+1, who) }
			}
		}
	}
	atOnce(t, 4, cases)
	t.Logf("%d crashes in %v", len(cases), time.Since(began).Round(time.Second))
}

// crashOnce kills who once, after step k.
func crashOnce(t *testing.T, steps []string, k int, who string) {
	n := newNetns(t)
	once := filepath.Join(n.dir, "once")
	far := n.agent("far", fmt.Sprintf("%s=%d:%s", crashVar, k, who), ownerVar+"="+n.dir, onceVar+"="+once)
	r := run(t, n.command(t, n.crashArgs(far, quick()...)...))
	must.Dof(t, must.Err(os.Stat(once)), "nothing was killed\n%s%s", r.out, r.err)
	switch who {
	case "controller", "all-but-watchdogs":
		n.restored(t)
		n.killedSession(t, r)
	case "whole-machine":
		n.changedNow(t, steps[2*len(steps)/3:k])
		n.killedSession(t, r)
		n.undoBoth(t, k)
		n.restored(t)
	case "watchdog-far":
		n.restored(t)
		n.lostWatchdog(t, r)
	default:
		// The controller finds new agents, repeats the block and ends well.
		r.ends(t, 0)
		n.restored(t)
		s := n.session(t)
		must.True(t, s.State == model.SessionDone && followed(s), "session is %s (%s) with runs %s", s.State, s.Reason, outline(s))
	}
}

// lostWatchdog requires that a session whose watchdog was killed stops with an error, or
// completes if nothing was left to do, and can be resumed.
func (n *netns) lostWatchdog(t *testing.T, r result) {
	t.Helper()
	if r.code != 0 {
		s := n.session(t)
		must.Need(t, r.code == 1 && strings.Contains(r.err, "the watchdog is gone") && (s.State == model.SessionInterrupted || s.State == model.SessionFailed), "exit code %d, session is %s\n%s%s", r.code, s.State, r.out, r.err)
		run(t, n.command(t, "run", "--allow-exec", "--resume", s.ID)).succeeds(t)
	}
	s := n.session(t)
	must.True(t, s.State == model.SessionDone && followed(s), "session is %s (%s) with runs %s", s.State, s.Reason, outline(s))
}

// killedSession requires that a session whose controller was killed is marked as stopped, and has
// its earlier measurements.
func (n *netns) killedSession(t *testing.T, r result) {
	t.Helper()
	r.ends(t, -1) // a killed controller
	s := n.session(t)
	must.True(t, s.State == model.SessionStopped && len(s.Runs) != 0 && s.Runs[0].State == model.RunValid, "session is %s with runs %s", s.State, outline(s))
}

// changedNow requires that the killed processes left the changes of their steps on the far
// host: a crash that leaves nothing proves nothing.
func (n *netns) changedNow(t *testing.T, steps []string) {
	t.Helper()
	now := n.knobs(t, "far")
	for knob, changed := range map[string]bool{
		"tcp.recv_buffer_max": now.rmem != n.before.far.rmem, "tcp.sack": now.sack != n.before.far.sack,
	} {
		want := slices.Contains(steps, "write "+knob) && !slices.Contains(steps, "restore "+knob)
		must.True(t, changed == want, "after %q: %s changed: %v, want %v", steps[len(steps)-1], knob, changed, want)
	}
}

// undoBoth does what a user does after everything crashed: linerate undo on each host, or the
// same through new agents.
func (n *netns) undoBoth(t *testing.T, k int) {
	t.Helper()
	for _, host := range []string{"near", "far"} {
		cmd := n.inside(t, host, "undo", "--state", n.state(host))
		if k%2 == 0 {
			cmd = n.command(t, "undo", n.agent(host))
		}
		run(t, cmd).ends(t, 0)
	}
}

// A host that dies on every change costs a session its runs, never its state.
func TestCrashInEveryAttempt(t *testing.T) {
	needRoot(t)
	steps := crashSteps(t)
	cases := map[string]func(*testing.T){}
	for _, who := range []string{"agent-far", "far-host", "both-hosts"} {
		for i, step := range []string{"write tcp.sack", "applied tcp.recv_buffer_max", "restore tcp.recv_buffer_max"} {
			if !must.Slow && (who != "far-host" || i != 1) {
				continue
			}
			cases[who+"/"+step] = func(t *testing.T) { crashAlways(t, 1+slices.Index(steps, step), who) }
		}
	}
	atOnce(t, 4, cases)
}

func crashAlways(t *testing.T, k int, who string) {
	n := newNetns(t)
	far := n.agent("far", fmt.Sprintf("%s=%d:%s", crashVar, k, who), ownerVar+"="+n.dir)
	r := run(t, n.command(t, n.crashArgs(far, quick()...)...))
	n.restored(t)
	s := n.session(t)
	r.ends(t, 5, "nothing was measured, all 6 runs are invalid", "contact lost")
	must.True(t, s.State == model.SessionFailed && strings.Contains(s.Reason, "2 of 2 blocks were given up") && len(s.Runs) == 6, "session is %s (%s) with runs %s", s.State, s.Reason, outline(s))
}

// foreign is the value that another program writes to rmem.
const foreign = "4096\t131072\t7777777"

// TestForeignChangeStays: another program changes a knob that linerate holds, then the session
// ends in each of several ways: the foreign value stays, and is reported.
func TestForeignChangeStays(t *testing.T) {
	needRoot(t)
	cases := map[string]func(*testing.T){}
	for _, who := range []string{"nobody", "controller", "agent-far", "far-host", "whole-machine"} {
		if !must.Slow && who != "controller" && who != "whole-machine" {
			continue
		}
		cases[who] = func(t *testing.T) { foreignStays(t, who) }
	}
	atOnce(t, 3, cases)
}

func foreignStays(t *testing.T, who string) {
	n := newNetns(t)
	p := start(t, n.command(t, n.crashArgs(n.agent("far"), "-t", "1m")...))
	held := func() bool {
		b := n.knobs(t, "far")
		records, _, err := journal.Read(n.state("far"))
		transactions := map[string]bool{} // the first is the rehearsal
		for _, r := range records {
			transactions[r.Transaction] = true
		}
		return err == nil && len(transactions) > 1 && b.rmem != n.before.far.rmem && b.rmem != foreign && b.sack != n.before.far.sack && n.knobs(t, "near").sack != n.before.near.sack
	}
	must.Within(t, 20*time.Second, "the setting", held)
	ip(t, "netns", "exec", n.far, "sh", "-c", "echo '"+foreign+"' > "+rmem)
	n.before.far.rmem = foreign
	// Backward: a watchdog must not have time to undo.
	for _, pid := range slices.Backward(relatives(p.cmd.Process.Pid, n.dir).members(who)) {
		must.Do(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	switch who {
	case "agent-far", "far-host": // the session goes on, from the foreign value
		must.Within(t, 20*time.Second, "the setting in the next attempt", held)
		p.signal(t, os.Interrupt)
	case "nobody":
		p.signal(t, os.Interrupt)
	}
	r := p.wait(t, 20*time.Second)
	reports := r.out + r.err
	if who == "whole-machine" {
		u := run(t, n.inside(t, "far", "undo", "--state", n.state("far"))).ends(t, 0)
		reports = u.out
		run(t, n.inside(t, "near", "undo", "--state", n.state("near")))
	}
	n.restored(t)
	if strings.Contains(reports, "left alone") && strings.Contains(reports, "7777777") {
		return
	}
	records, _, err := journal.Read(n.state("far"))
	written := err == nil && slices.ContainsFunc(records, func(r journal.Record) bool { return r.Kind == journal.KindForeign })
	// With the controller or the whole machine gone, a watchdog may have undone everything
	// before it was killed; the journal keeps its report.
	must.True(t, written && (who == "controller" || who == "whole-machine"), "nothing reports the foreign value:\n%s\nnor does the journal: %+v, %v", reports, records, err)
}
