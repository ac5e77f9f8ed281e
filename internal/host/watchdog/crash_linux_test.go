package watchdog

import (
	"context"
	"encoding/json"
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

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// bench is a host for crash tests.
type bench struct {
	host    hostknob.Host
	changes []model.Assignment
	root    string // root of the system's files, to test the job for the next start; "" for no job
}

// fakeBench is a tree of files, which needs no rights.
func fakeBench(t *testing.T) bench {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"tcp_rmem": "4096\t131072\t33554432", "tcp_wmem": "4096\t16384\t4194304", "tcp_sack": "1",
	} {
		setFile(t, filepath.Join(root, "net", "ipv4", name), text)
	}
	return bench{
		host: hostknob.Host{ProcSys: root},
		changes: []model.Assignment{
			{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "65536"},
			{Host: model.Far, Knob: "tcp.send_buffer_max", Value: "67108864"},
			{Host: model.Far, Knob: "tcp.sack", Value: "0"},
		},
	}
}

// realBench is the kernel, in the test's own namespace.
func realBench(t *testing.T) bench {
	t.Helper()
	must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wd0", MTU: 1500, TxQLen: 1000}, PeerName: "wd1"}))
	return bench{
		host: hostknob.Host{Interface: "wd0"},
		changes: []model.Assignment{
			{Host: model.Near, Knob: "tcp.recv_buffer_max", Value: "65536"},
			{Host: model.Near, Knob: "tcp.sack", Value: "0"},
			{Host: model.Near, Knob: "link.mtu", Value: "9000"},
		},
	}
}

func setFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
}

// values returns the native texts of the bench's knobs.
func (b bench) values(t *testing.T) map[model.KnobID]string {
	t.Helper()
	all := make(map[model.KnobID]string)
	for _, c := range b.changes {
		_, p, err := b.host.Place(c.Knob)
		must.Do(t, err)
		all[c.Knob] = must.Get(b.host.ReadRaw(t.Context(), c.Knob, p))(t)
	}
	return all
}

// run has an agent process apply and undo the changes. It returns once the agent and its
// watchdog have ended, with their state directory and the agent's output.
func (b bench) run(t *testing.T, environment ...string) (dir, output string) {
	t.Helper()
	dir = t.TempDir()
	return dir, b.runIn(t, dir, environment...)
}

// runIn is run with the state directory dir.
func (b bench) runIn(t *testing.T, dir string, environment ...string) (output string) {
	t.Helper()
	changes := must.Get(json.Marshal(b.changes))(t)
	cfg := Config{Dir: dir, Host: b.host}
	atBoot := ""
	if b.root != "" {
		atBoot = " --at-boot --root=" + b.root
	}
	alive, held, err := os.Pipe() // both processes hold its other end
	must.Do(t, err)
	defer alive.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(os.Environ(), environment...), roleVar+"=agent", changesVar+"="+string(changes),
		// Fields drops empty words, so flags without a value are left out.
		configVar+"=--dir="+cfg.Dir+" --proc-sys="+cfg.Host.ProcSys+" --interface="+cfg.Host.Interface+atBoot)
	cmd.ExtraFiles = []*os.File{held}
	out, err := cmd.CombinedOutput()
	must.Do(t, held.Close())
	interrupted := slices.ContainsFunc(environment, func(e string) bool { return strings.HasPrefix(e, crashVar) })
	must.Need(t, err == nil || interrupted, "agent: %v\n%s", err, out)
	must.Do(t, alive.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = alive.Read(make([]byte, 1))
	must.Need(t, !errors.Is(err, os.ErrDeadlineExceeded), "%v: a process is still alive\n%s", environment, out)
	return string(out)
}

// steps returns the names of all steps of a run without a fault.
func (b bench) steps(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "steps")
	b.run(t, stepsVar+"="+path)
	return stepsIn(t, path)
}

func stepsIn(t *testing.T, path string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(string(must.Get(os.ReadFile(path))(t))), "\n")
}

// TestCrashInNamespace kills the real processes on the real kernel, at one step of each kind;
// TestEveryFaultAfterEveryStep covers the rest. Whichever process is killed, all knobs get
// their old values back: at once if the watchdog survives, else after Recover.
func TestCrashInNamespace(t *testing.T) { knobtest.InNamespace(t, testCrashInNamespace) }

func testCrashInNamespace(t *testing.T) {
	b := realBench(t)
	before := b.values(t)
	steps := b.steps(t)
	// For 3 knobs: intent, write, read, applied; look, restore, undone. Plus closed once.
	must.Need(t, len(steps) == 3*7+1, "%d steps: %q", len(steps), steps)
	for _, target := range []string{"agent", "watchdog", "both"} {
		for _, step := range []string{"intent link.mtu", "write link.mtu", "applied tcp.recv_buffer_max", "restore link.mtu"} {
			n := slices.Index(steps, step)
			must.Need(t, n >= 0, "no step %q in %q", step, steps)
			dir, _ := b.run(t, fmt.Sprintf("%s=%d:%s", crashVar, n+1, target))
			if target != "agent" {
				must.OK(t, must.Err(Recover(t.Context(), Config{Dir: dir, Host: b.host})), "kill %s after %q: Recover", target, step)
			}
			b.expect(t, before, fmt.Sprintf("kill %s after %q", target, step))
			records, damage, err := journal.Read(dir)
			open := journal.OpenIntents(records)
			must.True(t, len(open) <= 0 && len(damage) <= 0 && err == nil, "kill %s after %q: open %v, damage %v, %v", target, step, open, damage, err)
		}
	}
}

func (b bench) expect(t *testing.T, want map[model.KnobID]string, when string) {
	t.Helper()
	for id, got := range b.values(t) {
		must.Equal(t, knob.SameText(got), knob.SameText(want[id]), "%s: %s holds %q, want %q", when, id, got, want[id])
	}
}

// lowestFree returns a process's next free file descriptor: with it as the limit the process
// cannot open another file.
func lowestFree(t *testing.T, pid int) uint64 {
	t.Helper()
	for n := uint64(0); ; n++ {
		if _, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", pid, n)); errors.Is(err, fs.ErrNotExist) && n > 2 {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoDescriptorsLeft: after a change the watchdog can open only the file descriptors that
// it reserved. These suffice to undo at its deadline or when its agent ends. If it may not
// raise its limit, it undoes with the files that it has open.
func TestNoDescriptorsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		soft, powerless bool // soft: only the soft limit is set; powerless: the process may not raise its hard limit
		deadline        time.Duration
	}{
		"deadline": {deadline: time.Second}, "end of the agent": {deadline: time.Hour}, "soft limit of none, end of the agent": {soft: true, deadline: time.Hour},
		"none, deadline": {powerless: true, deadline: time.Second}, "none, end of the agent": {powerless: true, deadline: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b, dir := fakeBench(t), t.TempDir()
			before := b.values(t)
			if c.powerless {
				t.Setenv(powerlessVar, "1")
			}
			c1 := start(t, b, dir)
			_, err := c1.Apply(t.Context(), b.changes, c.deadline)
			for d := c.deadline; errors.Is(err, ErrExpired) && d < time.Minute; d *= 4 { // a busy machine passed it before all was set
				_, err = c1.Apply(t.Context(), b.changes, 4*d)
			}
			must.Do(t, err)
			pid := c1.process.pid
			var limit unix.Rlimit
			err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
			switch limit.Cur = 0; {
			case c.powerless:
				limit.Max = 0
			case !c.soft:
				limit.Cur = lowestFree(t, pid)
				limit.Max = limit.Cur
			}
			if err := errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)); err != nil {
				t.Skipf("the limits of another process may not be set here: %v", err)
			}
			if c.deadline == time.Hour {
				c1.close.Do(func() { _ = c1.process.in.Close() })
			}
			b.back(t, before, "with no descriptors left")
			must.OK(t, c1.Close(), "Close")
			records, damage, err := journal.Read(dir)
			open := journal.OpenIntents(records)
			must.True(t, len(open) == 0 && len(damage) == 0 && err == nil, "open %v, damage %v, %v", open, damage, err)
		})
	}
}

// back waits until a bench has the wanted values again.
func (b bench) back(t *testing.T, want map[model.KnobID]string, when string) {
	t.Helper()
	must.Until(t, fmt.Sprintf("%s: %v", when, want), func() bool { return sameValues(b.values(t), want) })
}

func sameValues(a, b map[model.KnobID]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestArmedOnlyWithDescriptors: if descriptors cannot be reserved, nothing is changed.
func TestArmedOnlyWithDescriptors(t *testing.T) {
	d := newDesk(t)
	d.cfg.sys.spare = noneLeft{}
	d.start(t.Context(), sinceBoot)
	a := d.apply("tcp.sack", "0")
	must.True(t, a.Error != nil && a.Error.Text == "none left", "Apply = %+v", a)
	d.expect(sack, "1")
	must.OK(t, d.stop())
}

type noneLeft struct{}

func (noneLeft) hold() error { return fmt.Errorf("none left") }
func (noneLeft) release()    {}
