package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/lab/faults"
)

// The folders of the CPU control groups (cgroups(7), version 1): cpu and cpuacct are one
// controller there, or names of two.
const (
	groupsTime = "/sys/fs/cgroup/cpu"
	groupsUsed = "/sys/fs/cgroup/cpuacct"
)

// CPU shares: the lab comes before everything else on the machine, so that other work does not
// become a planted limit; a busy program comes before the agent whose core it shares.
const (
	sharesLab  = "262144"
	sharesBusy = "262144"
	sharesSlow = "4096"
)

// group is the control group of a case; "" if there is none.
type group struct{ name string }

// sleeper measures how late the machine wakes a sleeping goroutine. share stops it and returns
// the lateness as a share of the time.
func (g group) sleeper() (share func() float64) {
	const nap = 2 * time.Millisecond
	stop, late := make(chan struct{}), make(chan time.Duration, 1)
	began := time.Now()
	go func() {
		var sum time.Duration
		for {
			due := time.Now().Add(nap)
			select {
			case <-stop:
				late <- sum
				return
			case <-time.After(nap):
			}
			sum += max(0, time.Since(due)-time.Millisecond) // a runtime timer itself may be this late
		}
	}()
	return func() float64 {
		close(stop)
		return (<-late).Seconds() / time.Since(began).Seconds()
	}
}

// newGroup creates the group. Without a group, a case without plants can still be measured.
func newGroup(needed bool) (group, error) {
	g := group{fmt.Sprintf("linerate-judge-%d", os.Getpid())}
	err := g.make("")
	if err == nil {
		// This process joins too: its sleeper needs the lab's conditions.
		err = errors.Join(write(filepath.Join(groupsTime, g.name, "cpu.shares"), sharesLab),
			write(filepath.Join(groupsTime, g.name, "cgroup.procs"), strconv.Itoa(os.Getpid())))
	}
	if err != nil {
		g.remove()
		if needed {
			return g, fmt.Errorf("a control group of version 1 that may be written is needed: %w", err)
		}
		return group{}, nil
	}
	return g, nil
}

// roots returns the folders of the controllers.
func roots() []string { return []string{groupsTime, groupsUsed} }

// make creates the group, or one inside it.
func (g group) make(inner string) error {
	for _, root := range roots() {
		if err := os.Mkdir(filepath.Join(root, g.name, inner), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// remove removes the group and those inside it, once their processes have ended.
func (g group) remove() {
	if g.name == "" {
		return
	}
	_ = write(filepath.Join(groupsTime, "cgroup.procs"), strconv.Itoa(os.Getpid()))
	deadline := time.Now().Add(5 * time.Second)
	for _, root := range roots() {
		inner, _ := filepath.Glob(filepath.Join(root, g.name, "*", "cgroup.procs"))
		for _, file := range append(inner, filepath.Join(root, g.name, "cgroup.procs")) {
			for os.Remove(filepath.Dir(file)) != nil && time.Now().Before(deadline) {
				if _, err := os.Stat(filepath.Dir(file)); err != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
}

// start starts cmd in the group.
func (g group) start(cmd *exec.Cmd) error {
	if g.name == "" {
		return cmd.Start()
	}
	// A shell that joins the group and becomes the program, so that nothing of the program runs
	// outside.
	script := fmt.Sprintf("for f in %s/%s %s/%[2]s; do echo $$ > $f/cgroup.procs; done; exec \"$0\" \"$@\"", groupsTime, g.name, groupsUsed)
	cmd.Args = append([]string{"sh", "-c", script, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return cmd.Start()
}

// used is the CPU time since some moment, in seconds.
type used struct {
	at                time.Time
	all, group, steal float64
}

// usage reads the CPU time of the machine and of a group.
func usage(g group) used {
	u := used{at: time.Now()}
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		var v [8]float64
		if _, err := fmt.Sscanf(string(text), "cpu %f %f %f %f %f %f %f %f", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]); err == nil {
			u.steal = v[7] / 100
			u.all = (v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / 100 // USER_HZ is 100 (time(7))
		}
	}
	if text, err := os.ReadFile(filepath.Join(groupsUsed, g.name, "cpuacct.usage")); err == nil && g.name != "" {
		if n, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
			u.group = n / 1e9
		}
	}
	return u
}

// others returns how many cores were used by processes outside the group.
func (u used) others(now used) float64 {
	length := now.at.Sub(u.at).Seconds()
	if length <= 0 {
		return 0
	}
	return max(0, (now.all-u.all)-(now.group-u.group)) / length
}

// stolen returns the share of CPU time that a hypervisor gave to other guests.
func (u used) stolen(now used) float64 {
	length := now.at.Sub(u.at).Seconds() * float64(runtime.NumCPU())
	if length <= 0 {
		return 0
	}
	return max(0, now.steal-u.steal) / length
}

// plant applies a case's plants to its agents as soon as they run. undo ends them, and returns
// their errors.
func (g group) plant(ctx context.Context, program int, plants []faults.Plant) (undo func() error) {
	if len(plants) == 0 {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	errs := make([]error, len(plants))
	for i, p := range plants {
		all.Go(func() { errs[i] = g.one(ctx, program, p) })
	}
	return func() error {
		cancel()
		all.Wait()
		return errors.Join(errs...)
	}
}

// one applies one plant until ctx ends.
func (g group) one(ctx context.Context, program int, p faults.Plant) error {
	pid, err := agent(ctx, program, p.Host)
	if err != nil {
		return err
	}
	switch {
	case p.Quota > 0:
		return g.quota(pid, p.Quota)
	case p.RouteMTU > 0:
		return routeMTU(ctx, pid, p.RouteMTU)
	case p.Busy:
		return g.busy(ctx, pid)
	default:
		return stopping(ctx, pid, p)
	}
}

// quotaPeriod is the kernel's default period of a quota, in microseconds
// (Documentation/scheduler/sched-bwc.rst).
const quotaPeriod = 100_000

func (g group) quota(pid int, share float64) error {
	dir := filepath.Join(groupsTime, g.name, "slow")
	return errors.Join(g.make("slow"), write(filepath.Join(dir, "cpu.cfs_period_us"), strconv.Itoa(quotaPeriod)),
		write(filepath.Join(dir, "cpu.cfs_quota_us"), strconv.Itoa(int(share*quotaPeriod))),
		write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)))
}

// busy binds an agent and a program that never sleeps to one core.
func (g group) busy(ctx context.Context, pid int) error {
	err := errors.Join(g.make("slow"), g.make("busy"),
		write(filepath.Join(groupsTime, g.name, "slow", "cpu.shares"), sharesSlow),
		write(filepath.Join(groupsTime, g.name, "busy", "cpu.shares"), sharesBusy),
		write(filepath.Join(groupsTime, g.name, "slow", "cgroup.procs"), strconv.Itoa(pid)))
	if err != nil {
		return err
	}
	if text, err := exec.CommandContext(ctx, "taskset", "-a", "-p", "2", strconv.Itoa(pid)).CombinedOutput(); err != nil {
		return fmt.Errorf("taskset: %w: %s", err, text)
	}
	spinner := exec.CommandContext(ctx, "taskset", "2", "sh", "-c", fmt.Sprintf("echo $$ > %s/%s/busy/cgroup.procs; echo $$ > %s/%[2]s/busy/cgroup.procs; while :; do :; done", groupsTime, g.name, groupsUsed))
	if err := spinner.Run(); ctx.Err() == nil {
		return fmt.Errorf("the busy program ended: %w", err)
	}
	return nil
}

// routeMTU sets the MTU of the routes of a virtual host's interface.
func routeMTU(ctx context.Context, pid, size int) error {
	const script = `ip route show dev eth0 | while read -r route; do ip route change $route dev eth0 mtu "$0" || exit 1; done`
	text, err := exec.CommandContext(ctx, "nsenter", "--net", "--target", strconv.Itoa(pid), "sh", "-c", script, strconv.Itoa(size)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip route: %w: %s", err, text)
	}
	return nil
}

// stopping stops a process for a part of each period.
func stopping(ctx context.Context, pid int, p faults.Plant) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = signal(process, false) }()
	for {
		for _, step := range []struct {
			stop bool
			time time.Duration
		}{{true, p.Stopped}, {false, p.Period - p.Stopped}} {
			if err := signal(process, step.stop); err != nil {
				return nil // the process has ended: the test is over
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(step.time):
			}
		}
	}
}

// agentTime is how long to wait for an agent.
const agentTime = 20 * time.Second

// agent finds the agent of a virtual host among the processes below program.
func agent(ctx context.Context, program int, host model.Host) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	for {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		parents := map[int]int{}
		var agents []int
		for _, file := range stats {
			pid, parent, ok := parentOf(file)
			if !ok {
				continue
			}
			parents[pid] = parent
			if line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")); err == nil && isAgent(string(line), host) {
				agents = append(agents, pid)
			}
		}
		for _, pid := range agents {
			for p := pid; p > 1; p = parents[p] {
				if p == program {
					return pid, nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("no agent in host %s: %w", host, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// isAgent reports whether a command line is that of the agent in a lab's host: its state folder
// has the host's name.
func isAgent(line string, host model.Host) bool {
	words := strings.Split(strings.TrimRight(line, "\x00"), "\x00")
	for i, w := range words {
		if w == "--state" && i+1 < len(words) && len(words) > 1 && words[1] == "agent" {
			return filepath.Base(words[i+1]) == string(host)
		}
	}
	return false
}

// parentOf parses /proc/PID/stat: "123 (name) S 1 ...".
func parentOf(file string) (pid, parent int, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, false
	}
	before, after, found := strings.Cut(string(text), " (")
	i := strings.LastIndex(after, ") ")
	if !found || i < 0 {
		return 0, 0, false
	}
	pid, err = strconv.Atoi(before)
	if err != nil {
		return 0, 0, false
	}
	var state string
	_, err = fmt.Sscan(after[i+2:], &state, &parent)
	return pid, parent, err == nil
}

func write(file, text string) error { return os.WriteFile(file, []byte(text), 0o644) }
