package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/must"
	"linerate/internal/store/sqlite"
)

// compareArgs returns an experiment with three settings, including the twin, on both hosts.
func (n *netns) compareArgs(blocks int, more ...string) []string {
	return append([]string{
		"run", "--from", n.agent("near"), "--far", n.agent("far"), "--factor", "tcp.recv_buffer_max=8KiB,64KiB",
		"-l", "16KiB", "--omit", "0s", "--blocks", fmt.Sprint(blocks), "--seed", "7",
	}, more...)
}

// short returns the flags of very short runs.
func short() []string { return []string{"-t", "0.1s", "-i", "0.1s", "--settle", "0s"} }

// during is a moment for an interrupt.
type during struct {
	args  []string
	until func(*testing.T, *netns) bool // whether the moment has come
	runs  bool                          // whether a session has begun
}

func moments() map[string]during {
	changed := func(t *testing.T, n *netns) bool {
		now := n.bothKnobs(t)
		return now.near != n.before.near && now.far != n.before.far
	}
	return map[string]during{
		"before the first run": {short(), func(_ *testing.T, n *netns) bool {
			return len(netnsPIDs(n.near)) > 0
		}, false},
		"settling": {[]string{"-t", "1s", "--settle", "1m"}, func(t *testing.T, n *netns) bool {
			_, err := n.trySession(t) // before it, linerate checks whether the hosts accept the settings
			return err == nil && changed(t, n)
		}, true},
		"running": {[]string{"-t", "1m", "--settle", "0s"}, func(t *testing.T, n *netns) bool {
			const enough = 3e6 // bytes, far more than the earlier probe sends
			return must.Err(n.trySession(t)) == nil && changed(t, n) && n.received(t) > enough
		}, true},
		"cooling down": {append(short(), "--cooldown", "1m"), func(t *testing.T, n *netns) bool {
			s, err := n.trySession(t)
			return err == nil && len(s.Runs) >= 1 && n.bothKnobs(t) == n.before
		}, true},
	}
}

// received returns how many bytes the far host has received, /proc/net/dev (proc_pid_net(5)):
//
//	v0: 1296 16 0 0 0 0 0 0 ...
func (n *netns) received(t testing.TB) float64 {
	t.Helper()
	_, rest, _ := strings.Cut(n.read(t, "far", "/proc/thread-self/net/dev"), "v0:")
	var bytes float64
	must.Get(fmt.Sscan(rest, &bytes))(t)
	return bytes
}

// TestInterrupt presses Ctrl-C once and twice at every kind of moment: the hosts are restored,
// nothing is left running, and the user learns how to resume.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){}
	for name, m := range moments() {
		cases[name+"/once"] = func(t *testing.T) { interrupt(t, m, false) }
		cases[name+"/twice"] = func(t *testing.T) { interrupt(t, m, true) }
	}
	beside(t, cases)
}

func interrupt(t *testing.T, m during, twice bool) {
	n := newNetns(t)
	// The first run must be one that changes the hosts, so the baseline is not the unchanged
	// hosts.
	p := start(t, n.command(t, n.compareArgs(2, append(m.args, "--baseline", "8KiB", "--no-twin")...)...))
	must.Until(t, "the moment to interrupt", func() bool { return m.until(t, n) })
	p.signal(t, os.Interrupt)
	if twice {
		// The second one ends the controller at once, unless the first was faster.
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	r := p.wait(t, patience)
	n.restored(t)
	bySignal := p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT
	must.Need(t, r.code == 130 || twice && bySignal, "exit code %d\n%s%s", r.code, r.out, r.err)
	if !m.runs {
		s, err := n.trySession(t)
		must.True(t, err != nil, "there is a session: %s", outline(s))
		return
	}
	s := n.session(t)
	must.True(t, s.State == model.SessionInterrupted || r.code == -1 && s.State == model.SessionStopped, "session is %s", s.State)
	how := "linerate run --resume " + s.ID
	must.True(t, r.code != 130 || strings.Contains(r.err, how), "%q is not in\n%s", how, r.err)
}

// TestSecondInterrupt: a host does not answer any more. The first Ctrl-C waits for it, the second
// does not. The host undoes when it can.
func TestSecondInterrupt(t *testing.T) {
	n := netnsBeside(t)
	p := start(t, n.command(t, n.crashArgs(n.agent("far"), "-t", "1m")...))
	must.Until(t, "the setting", func() bool {
		now := n.bothKnobs(t)
		return now.near.rmem != n.before.near.rmem && now.far.rmem != n.before.far.rmem
	})
	agent := relatives(p.cmd.Process.Pid, n.dir).agentFar
	must.Need(t, agent != 0, "no agent on the far host")
	must.Do(t, syscall.Kill(agent, syscall.SIGSTOP))
	p.signal(t, os.Interrupt)
	select {
	case r := <-p.done:
		t.Fatalf("the first one did not wait for the host: exit code %d\n%s%s", r.code, r.out, r.err)
	case <-time.After(500 * time.Millisecond):
	}
	p.signal(t, os.Interrupt)
	r := p.wait(t, patience)
	must.True(t, r.code == -1 && p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT, "exit code %d\n%s%s", r.code, r.out, r.err)
	must.Do(t, syscall.Kill(agent, syscall.SIGCONT))
	n.restored(t)
}

// TestResume ends the controller in the middle of a block, by Ctrl-C and by kill -9, and
// resumes: the plan is completed, and the verdicts equal those of the same runs without the
// interruption.
func TestResume(t *testing.T) {
	t.Parallel()
	beside(t, map[string]func(*testing.T){
		"interrupted": func(t *testing.T) { resume(t, os.Interrupt, model.SessionInterrupted) },
		"killed":      func(t *testing.T) { resume(t, os.Kill, model.SessionStopped) },
	})
}

func resume(t testing.TB, sig os.Signal, state model.SessionState) {
	const blocks = 12
	n := newNetns(t)
	p := start(t, n.command(t, n.compareArgs(blocks, short()...)...))
	must.Until(t, "the middle of a block", func() bool {
		must.Need(t, len(p.done) == 0, "it ended: %s%s", p.said(), p.complaints())
		s, err := n.trySession(t)
		return err == nil && len(s.Runs) > len(s.Plan.Order[0]) && len(s.Runs)%len(s.Plan.Order[0]) != 0
	})
	list := func() string { return run(t, n.command(t, "list", "--json")).out }
	if r := run(t, n.command(t, "run", "--allow-exec", "--resume", "last")); r.code != 2 || !strings.Contains(r.err, "measured by another linerate") || !strings.Contains(list(), `"state": "running"`) {
		t.Errorf("resume of a session that runs: exit code %d\n%s\n%s", r.code, r.err, list())
	}
	p.signal(t, sig)
	p.wait(t, patience)
	n.restored(t)
	cut := n.session(t)
	must.Contain(t, list(), fmt.Sprintf("%q: %q", "state", state), "listed as")
	must.Need(t, cut.State == state && len(cut.Runs) != 0 && len(cut.Runs) < blocks*len(cut.Plan.Order[0]), "session is %s with runs %s", cut.State, outline(cut))

	r := run(t, n.command(t, "run", "--allow-exec", "--resume", cut.ID[:len(cut.ID)-1]))
	n.restored(t)
	s := n.session(t)
	must.Need(t, (r.code == 0 || r.code == 5) && s.State == model.SessionDone,
		"resume: exit code %d, session is %s (%s)\n%s%s", r.code, s.State, s.Reason, r.out, r.err)
	must.True(t, s.ID == cut.ID && reflect.DeepEqual(s.Plan, cut.Plan) && reflect.DeepEqual(s.Runs[:len(cut.Runs)], cut.Runs), "resuming changed what was there: %s with runs %s, was %s with runs %s", s.ID, outline(s), cut.ID, outline(cut))
	must.True(t, followed(s), "order %v, runs %s", s.Plan.Order, outline(s))
	if want := analysis.Analyse(s.Plan, s.Runs).Verdicts; len(want) == 0 || !reflect.DeepEqual(s.Verdicts, want) {
		got, _ := json.Marshal(s.Verdicts)
		expected, _ := json.Marshal(want)
		t.Errorf("verdicts differ from those of an uninterrupted session:\n%s\n%s", got, expected)
	}
	run(t, n.command(t, "run", "--allow-exec", "--resume", s.ID)).ends(t, 2, "is done") // resume of a finished session
}

// TestInterruptedLabLeavesNothing ends commands that have a lab, by Ctrl-C and by kill -9: all
// processes of the lab end with them.
func TestInterruptedLabLeavesNothing(t *testing.T) {
	labBeside(t)
	cases := map[string]func(*testing.T){}
	for name, args := range map[string][]string{
		"test": {"test", "lab:rate=100mbit,rtt=2ms", "-t", "1m"},
		"demo": {"demo"},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			cases[fmt.Sprintf("%s/%v", name, sig)] = func(t *testing.T) { interruptLab(t, sig, args) }
		}
	}
	beside(t, cases)
}

func interruptLab(t testing.TB, sig syscall.Signal, args []string) {
	dir := t.TempDir()
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	// All processes of the lab inherit this variable.
	cmd.Env = append(os.Environ(), "LINERATE_DB="+filepath.Join(dir, "db"), "LINERATE_STATE="+dir, "TMPDIR="+tmp)
	p := start(t, cmd)
	t.Cleanup(func() {
		for _, pid := range withVariable("LINERATE_STATE=" + dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	// The session is stored once the lab is up; then traffic begins.
	must.Until(t, "a session", func() bool { return sessions(t.Context(), filepath.Join(dir, "db")) > 0 })
	n := len(withVariable("LINERATE_STATE=" + dir))
	must.True(t, n >= 4, "%d processes: this test does not see the lab", n)
	p.signal(t, sig)
	r := p.wait(t, patience)
	want := map[syscall.Signal]int{syscall.SIGKILL: -1}[sig]
	must.True(t, (sig == syscall.SIGKILL || r.code == 130) && (want != -1 || r.code == -1), "exit code %d\n%s%s", r.code, r.out, r.err)
	must.Until(t, "processes of the lab are left", func() bool { return len(withVariable("LINERATE_STATE="+dir)) == 0 })
	left, _ := os.ReadDir(tmp)
	must.True(t, sig == syscall.SIGKILL || len(left) == 0, "left behind: %v", left)
}

// sessions counts the sessions in a store.
func sessions(ctx context.Context, path string) int {
	if _, err := os.Stat(path); err != nil {
		return 0
	}
	st, err := sqlite.Open(ctx, path)
	if err != nil {
		return 0
	}
	defer st.Close()
	if _, err := st.Session(ctx, "last"); err != nil {
		return 0
	}
	return 1
}

// withVariable returns the processes whose environment has a variable.
func withVariable(text string) []int {
	var pids []int
	for _, pid := range allPIDs() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // gone, or not ours
		if strings.Contains("\x00"+string(b)+"\x00", "\x00"+text+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// counted returns the runs of s that count: for each block those of the one attempt whose runs
// are all valid and complete.
func counted(s model.Session) []model.Run {
	var out []model.Run
	for b := range s.Plan.Order {
		for attempt := 1; ; attempt++ {
			tried := slices.DeleteFunc(slices.Clone(s.Runs), func(r model.Run) bool { return r.Block != b+1 || r.Attempt != attempt || r.State == model.RunEqualLoad })
			if len(tried) == 0 {
				break
			}
			valid := !slices.ContainsFunc(tried, func(r model.Run) bool { return r.State != model.RunValid })
			if valid && len(tried) == len(s.Plan.Order[b]) {
				out = append(out, tried...)
				break
			}
		}
	}
	return out
}

// followed reports whether the runs that count are the plan's, all blocks in the order drawn
// before the first run. A block may have been given up: on a busy machine a short run may end
// before its first byte.
func followed(s model.Session) bool {
	var done, planned []string
	counts, attempts := map[int]bool{}, map[int]int{}
	for _, r := range counted(s) {
		done = append(done, fmt.Sprintf("%d %s", r.Block, r.Setting))
		counts[r.Block] = true
	}
	for _, r := range s.Runs {
		attempts[r.Block] = max(attempts[r.Block], r.Attempt)
	}
	for b, block := range s.Plan.Order {
		if !counts[b+1] && attempts[b+1] > stats.BlockRepeats {
			continue
		}
		for _, setting := range block {
			planned = append(planned, fmt.Sprintf("%d %s", b+1, setting))
		}
	}
	return slices.Equal(done, planned)
}

// outline returns the runs of s in one line.
func outline(s model.Session) string {
	words := make([]string, len(s.Runs))
	for i, r := range s.Runs {
		words[i] = fmt.Sprintf("%d.%d %s %s %q", r.Block, r.Attempt, r.Setting, r.State, r.Reason)
	}
	return strings.Join(words, "; ")
}
