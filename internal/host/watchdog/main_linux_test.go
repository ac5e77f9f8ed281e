package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
)

// The test program also runs as the two processes that the tests kill: an agent that applies
// and undoes changes, and its watchdog. These variables select the role and the fault.
const (
	roleVar      = "LINERATE_TEST_ROLE"      // "agent", "watchdog", "reverter" or "boot"
	confirmVar   = "LINERATE_TEST_CONFIRM"   // not empty: confirm the agent's changes; the agent undoes none
	configVar    = "LINERATE_TEST_CONFIG"    // flags of the agent's watchdog
	changesVar   = "LINERATE_TEST_CHANGES"   // JSON, for the agent
	groupVar     = "LINERATE_TEST_GROUP"     // JSON, lists of changes that the agent makes after its first, in the same transaction
	stepsVar     = "LINERATE_TEST_STEPS"     // file to which the watchdog appends the name of each step
	deadlineVar  = "LINERATE_TEST_DEADLINE"  // deadline of the agent's Apply; a minute by default
	crashVar     = "LINERATE_CRASH"          // N:agent, N:watchdog or N:both: killed after step N, 1…; N:stop: the agent is stopped until all is undone; N:cgroup: all of the agent's cgroup is killed
	busyVar      = "LINERATE_TEST_BUSY"      // while this file exists, the driver of tcp.sack refuses the old value
	cgroupVar    = "LINERATE_TEST_CGROUP"    // the agent's cgroup, for N:cgroup
	noBootVar    = "LINERATE_TEST_NO_BOOT"   // not empty: the agent installs no job for the next start
	powerlessVar = "LINERATE_TEST_POWERLESS" // not empty: the watchdog may not raise its limits (no CAP_SYS_RESOURCE)
	foreignVar   = "LINERATE_TEST_FOREIGN"   // N:path=text: another program writes text after step N
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "watchdog":
		os.Exit(exitCode(watchdogMain()))
	case "agent":
		os.Exit(exitCode(agentMain()))
	case "reverter":
		os.Exit(exitCode(reverterMain()))
	case "boot":
		os.Exit(exitCode(bootMain()))
	}
	os.Exit(m.Run())
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func watchdogMain() error {
	cfg, err := ParseArgs(os.Args[1:])
	if err != nil {
		return err
	}
	cfg.After, cfg.Talk = interruptions(), os.Stderr
	if os.Getenv(powerlessVar) != "" {
		dropPower()
	}
	if path := os.Getenv(busyVar); path != "" {
		cfg.Host = busyHost(cfg.Host.ProcSys, path)
	}
	return Serve(context.Background(), os.Stdin, os.Stdout, cfg)
}

// dropPower gives up CAP_SYS_RESOURCE, which a process needs to raise its hard limits.
func dropPower() {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	orPanic(unix.Capget(header, &data[0]))
	data[0].Effective &^= 1 << unix.CAP_SYS_RESOURCE
	data[0].Permitted &^= 1 << unix.CAP_SYS_RESOURCE
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		panic(errno)
	}
}

// agentMain makes the calls of one run.
func agentMain() (err error) {
	ctx := context.Background()
	cfg, err := ParseArgs(strings.Fields(os.Getenv(configVar)))
	if err != nil {
		return err
	}
	cfg.Command, cfg.Talk = os.Args[:1], os.Stderr
	cfg.AtBoot = cfg.AtBoot && os.Getenv(noBootVar) == ""
	if dir := os.Getenv(cgroupVar); dir != "" {
		if err := joinCgroup(dir); err != nil {
			return err
		}
	}
	var changes []model.Assignment
	if err := json.Unmarshal([]byte(os.Getenv(changesVar)), &changes); err != nil {
		return err
	}
	if err := os.Setenv(roleVar, "watchdog"); err != nil {
		return err
	}
	deadline := time.Minute
	if s := os.Getenv(deadlineVar); s != "" {
		if deadline, err = time.ParseDuration(s); err != nil {
			return err
		}
	}
	c, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Apply(ctx, changes, deadline); err != nil {
		return err
	}
	if _, err := c.Verify(ctx); err != nil {
		return err
	}
	if err := laterApplies(ctx, c, deadline); err != nil {
		return err
	}
	if os.Getenv(confirmVar) != "" {
		return Confirm(ctx, cfg, c.Transaction())
	}
	_, err = c.Undo(ctx)
	return err
}

// laterApplies makes the further changes of a group.
func laterApplies(ctx context.Context, c *Client, deadline time.Duration) error {
	var later [][]model.Assignment
	if text := os.Getenv(groupVar); text != "" {
		if err := json.Unmarshal([]byte(text), &later); err != nil {
			return err
		}
	}
	for _, changes := range later {
		if _, err := c.Apply(ctx, changes, deadline); err != nil {
			return err
		}
		if mismatches, err := c.Verify(ctx); err != nil || len(mismatches) > 0 {
			return fmt.Errorf("%v: %w", mismatches, err)
		}
	}
	return nil
}

// reverterMain is linerate undo.
func reverterMain() error {
	cfg, err := ParseArgs(strings.Fields(os.Getenv(configVar)))
	if err != nil {
		return err
	}
	cfg.After = interruptions()
	_, err = Revert(context.Background(), cfg)
	return err
}

// interruptions returns the hook that the variables request.
func interruptions() func(step string) {
	crashAt, target := numbered(os.Getenv(crashVar))
	foreignAt, foreign := numbered(os.Getenv(foreignVar))
	n := 0
	return func(step string) {
		n++
		if path := os.Getenv(stepsVar); path != "" {
			addLine(path, step)
		}
		if n == foreignAt {
			path, text, _ := strings.Cut(foreign, "=")
			orPanic(os.WriteFile(path, []byte(text+"\n"), 0o644))
		}
		if target == "stop" && step == "closed" {
			orPanic(syscall.Kill(os.Getppid(), syscall.SIGCONT))
		}
		if n != crashAt {
			return
		}
		if target == "stop" {
			orPanic(syscall.Kill(os.Getppid(), syscall.SIGSTOP))
			for !standsStill(os.Getppid()) {
				runtime.Gosched()
			}
		}
		if target == "cgroup" {
			killCgroup(os.Getenv(cgroupVar))
		}
		if target == "agent" || target == "both" {
			orPanic(syscall.Kill(os.Getppid(), syscall.SIGKILL))
		}
		if target == "watchdog" || target == "both" {
			orPanic(syscall.Kill(os.Getpid(), syscall.SIGKILL))
			select {} // wait for the signal
		}
	}
}

// standsStill reports whether all threads of a process have stopped: the signal reaches them
// one by one (state T of proc_pid_stat(5)).
func standsStill(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	orPanic(err)
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		orPanic(err)
		if _, state, ok := strings.Cut(string(text), ") "); !ok || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

func numbered(s string) (int, string) {
	n, rest, _ := strings.Cut(s, ":")
	i, _ := strconv.Atoi(n) // 0, which is no step, without a number
	return i, rest
}

func addLine(path, line string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	orPanic(err)
	_, err = fmt.Fprintln(f, line)
	orPanic(err)
	orPanic(f.Close())
}

// orPanic is for the processes that run outside a test.
func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}
