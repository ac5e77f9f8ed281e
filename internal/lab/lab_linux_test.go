package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/lab/wire"
	"linerate/internal/must"
)

// kinds are the kinds of wire, both of which are tested.
var kinds = []wire.Kind{wire.Packet, wire.TAP}

// testConfig runs the test binary as the lab's processes and, as agent, as echo.
func testConfig(kind wire.Kind) Config {
	return Config{
		Command: []string{"/proc/self/exe", "lab-init"},
		Wire:    kind,
	}
}

// patience is the timeout for events that must happen, on a machine of any load.
const patience = time.Minute

// startLab starts a lab that ends with the test.
func startLab(t testing.TB, text string, kind wire.Kind) *Lab {
	t.Helper()
	if kind == wire.TAP {
		f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
		must.SkipIf(t, err != nil, "this user may not open TAP devices: %v", err)
		f.Close()
	}
	spec := must.Get(ParseSpec(text))(t)
	l, err := Start(t.Context(), spec, testConfig(kind))
	must.SkipIf(t, errors.Is(err, fs.ErrPermission), "virtual hosts need user namespaces or root: %v", err)
	must.Do(t, err)
	t.Cleanup(func() { must.OK(t, l.Close(), "close") })
	return l
}

// listen starts a peer in host and returns once it listens. result waits for its end and
// decodes its JSON output into v.
func listen(t testing.TB, l *Lab, host model.Host, args ...string) (result func(v any)) {
	t.Helper()
	r, w := io.Pipe()
	var text bytes.Buffer
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		err := l.Command(ctx, host, append([]string{"/proc/self/exe", "peer"}, args...), nil, w, os.Stderr)
		w.Close()
		ended <- err
	}()
	lines := bufio.NewReader(r)
	if line, err := lines.ReadString('\n'); err != nil || line != "up\n" {
		t.Fatalf("peer %q said %q: %v, %v", args, line, err, <-ended)
	}
	read := make(chan error, 1)
	go func() {
		_, err := text.ReadFrom(lines)
		read <- err
	}()
	return func(v any) {
		t.Helper()
		must.Dof(t, errors.Join(must.Wait(t, "the end of a peer", ended), <-read), "peer %q", args)
		must.Dof(t, json.Unmarshal(text.Bytes(), v), "peer %q printed %q", args, text.Bytes())
	}
}

// run runs a peer in host and returns its output.
func run(t testing.TB, l *Lab, host model.Host, args ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, l.Command(t.Context(), host, append([]string{"/proc/self/exe", "peer"}, args...), nil, &out, os.Stderr))
	return out.Bytes()
}

func TestNamesAndAddresses(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			l := startLab(t, "rtt=0s", kind)
			for _, host := range []model.Host{model.Near, model.Far} {
				for _, name := range []model.Host{model.Near, model.Far} {
					got := string(run(t, l, host, "resolve", string(name)))
					must.True(t, strings.Contains(got, l.Addr(name).String()), "in host %s, %s is %q, want %s", host, name, got, l.Addr(name))
				}
			}
			listen(t, l, model.Far, "udp-echo")
			for _, to := range []string{"far", l.Addr(model.Far).String(), "[" + l.Addr6(model.Far).String() + "]", "far6"} {
				must.Equal(t, ping(t, l, model.Near, to, 3, 64), 3, "ping %s of 3 answered", to)
			}
		})
	}
}

func TestDial(t *testing.T) {
	l := startLab(t, "rtt=0s", wire.Auto)
	for _, host := range []model.Host{model.Near, model.Far, model.Far} {
		c := must.Get(l.Dial(t.Context(), host, echoPeer))(t)
		defer c.Close()
		must.Do(t, c.SetDeadline(time.Now().Add(patience)))
		want := "hello " + string(host)
		must.Get(io.WriteString(c, want))(t)
		got := make([]byte, len(want))
		_, err := io.ReadFull(c, got)
		must.True(t, err == nil && string(got) == want, "host %s echoed %q, %v", host, got, err)
	}
	must.Fail(t, must.Err(l.Dial(t.Context(), "c", echoPeer)), "dialled host c, which does not exist")
}

func TestCommand(t *testing.T) {
	l := startLab(t, "rtt=0s", wire.Auto)
	var out, errs bytes.Buffer
	err := l.Command(t.Context(), model.Near, []string{"sh", "-c", "cat; echo $NEAR_ADDR $FAR_ADDR; echo oops >&2; exit 3"},
		strings.NewReader("in\n"), &out, &errs)
	var exit *ExitError
	must.True(t, errors.As(err, &exit) && exit.Code == 3, "error %v, want exit code 3", err)
	must.Equal(t, out.String(), "in\n10.99.0.1 10.99.0.2\n", "stdout")
	must.Equal(t, errs.String(), "oops\n", "stderr")
	err = l.Command(t.Context(), model.Near, []string{"no-such-program"}, nil, nil, nil)
	must.True(t, err != nil && !errors.As(err, &exit), "running a missing program: %v", err)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = bufio.NewReader(r).ReadString('\n')
		cancel()
	}()
	// A program that ignores SIGTERM, so that SIGKILL must follow.
	err = l.Command(ctx, model.Near, []string{"sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"}, nil, w, nil)
	must.Is(t, err, context.Canceled, "cancelled program")
}

func TestStartMistakes(t *testing.T) {
	spec := must.Get(ParseSpec(""))(t)
	for name, cfg := range map[string]Config{
		"no command":      {},
		"missing program": {Command: []string{"/no/such/program"}},
		"wrong program":   {Command: []string{"sh", "-c", "echo broken >&2; exit 1"}},
	} {
		if l, err := Start(t.Context(), spec, cfg); err == nil {
			t.Errorf("%s: no error", name)
			l.Close()
		} else if name == "wrong program" && !strings.Contains(err.Error(), "broken") {
			t.Errorf("%s: error %q does not tell what the program said", name, err)
		}
	}
	err := explain(os.NewSyscallError("clone", fs.ErrPermission))
	must.True(t, errors.Is(err, fs.ErrPermission) && strings.Contains(err.Error(), "run it as root"), "explained as %v", err)
	must.Fail(t, Child(nil), "Child without a role gave no error")
	must.Fail(t, Child([]string{"cook"}), "Child with an unknown role gave no error")
}

// marked returns the processes whose environment has the mark.
func marked(t *testing.T, mark string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc"))(t)
	var found []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || e.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(mark)) {
			found = append(found, e.Name())
		}
	}
	return found
}

// waitMarked waits until least to most processes have the mark.
func waitMarked(t *testing.T, mark string, least, most int) {
	t.Helper()
	must.Until(t, fmt.Sprintf("%d to %d marked processes", least, most), func() bool {
		n := len(marked(t, mark))
		return n >= least && n <= most
	})
}

// labMark is the variable that marks the processes of one test.
const labMark = "LINERATE_LAB_TEST"

func TestCloseLeavesNothing(t *testing.T) {
	value := strconv.FormatInt(time.Now().UnixNano(), 36)
	t.Setenv(labMark, value)
	l := startLab(t, "rtt=0s", wire.Auto)
	conn := must.Get(l.Dial(t.Context(), model.Near, echoPeer))(t)
	defer func() { _ = conn.Close() }() // deferred to here: the garbage collector would close an unreferenced conn, and its program would end
	// A daemon that left its parent and its process group.
	must.Do(t, l.Command(t.Context(), model.Far, []string{"sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"}, nil, nil, nil))
	mark := labMark + "=" + value
	waitMarked(t, mark, 5, math.MaxInt) // a program that is just starting has no environment yet
	must.Do(t, l.Close())
	left := marked(t, mark)
	must.True(t, len(left) == 0, "processes %v are left after Close", left)
	must.OK(t, l.Close(), "second close")
	must.Fail(t, must.Err(l.Stats(t.Context())), "a closed lab gave counters")
}

// controller runs a lab until it is killed.
func controller() error {
	spec, err := ParseSpec("")
	if err != nil {
		return err
	}
	l, err := Start(context.Background(), spec, testConfig(wire.Auto))
	if err != nil {
		return err
	}
	conn, err := l.Dial(context.Background(), model.Far, echoPeer)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return l.Command(context.Background(), model.Near, []string{"/proc/self/exe", "peer", "hang"}, nil, os.Stdout, os.Stderr)
}

func TestKilledControllerLeavesNothing(t *testing.T) {
	startLab(t, "rtt=0s", wire.Auto) // skips if labs are unavailable
	value := strconv.FormatInt(time.Now().UnixNano(), 36)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "peer", "controller")
	cmd.Env = append(os.Environ(), labMark+"="+value)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must.Need(t, line == "up\n", "controller said %q, %v", line, err)
	waitMarked(t, labMark+"="+value, 6, math.MaxInt)
	must.Do(t, cmd.Process.Kill())
	waitMarked(t, labMark+"="+value, 0, 0)
	must.Fail(t, cmd.Wait(), "the killed controller ended well")
}

// echoPeer is an agent that echoes its input.
var echoPeer = []string{"/proc/self/exe", "peer", "echo"}

// TestShaper: only the interface of the host with the setting has a shaper.
func TestShaper(t *testing.T) {
	l := startLab(t, "rate=1gbit,far.shape=20mbit", wire.Packet)
	for host, want := range map[model.Host]bool{model.Near: false, model.Far: true} {
		var out strings.Builder
		err := l.Command(t.Context(), host, []string{"tc", "qdisc", "show", "dev", "eth0"}, nil, &out, &out)
		must.SkipIf(t, err != nil, "tc of iproute2 is needed: %v", err)
		must.Equal(t, strings.Contains(out.String(), "tbf") && strings.Contains(out.String(), "20Mbit"), want, "host %s: %s", host, out.String())
	}
}

// TestQuota: only the programs of a host with a CPU quota are in a control group that has it.
// The group is removed with the lab or, if the lab was killed, by the next one.
func TestQuota(t *testing.T) {
	parent, _, err := groupParent("/")
	must.SkipIf(t, err != nil || os.Geteuid() != 0, "no control group with a quota can be made: %v", err)
	killed := filepath.Join(parent, groupPrefix+strconv.Itoa(1<<22+os.Getpid())+"-far-1") // no process has this id: PID_MAX_LIMIT is 2^22 (Linux include/linux/threads.h)
	must.Do(t, os.Mkdir(killed, 0o755))
	l := startLab(t, "rtt=0s,far.cpu.quota=20%", wire.Auto)
	dir := l.os.groups[model.Far]
	for host, want := range map[model.Host]bool{model.Near: false, model.Far: true} {
		var out strings.Builder
		must.Do(t, l.Command(t.Context(), host, []string{"sh", "-c", "cat /proc/self/cgroup; cat " + dir + "/cpu.cfs_quota_us || cat " + dir + "/cpu.max"}, nil, &out, nil))
		must.Equal(t, strings.Contains(out.String(), "/"+filepath.Base(dir)+"\n"), want, "host %s is in %s", host, out.String())
		must.Contain(t, out.String(), "\n20000")
	}
	must.OK(t, l.Close())
	for _, gone := range []string{dir, killed} {
		must.Is(t, must.Err(os.Stat(gone)), fs.ErrNotExist)
	}
}

// TestQuotaFiles: the place and content of a host's group in each version of control groups,
// and the refusal if they are missing.
func TestQuotaFiles(t *testing.T) {
	for name, c := range map[string]struct {
		self, gives string // /proc/self/cgroup, and the group of version 2 that provides the controller
		want, says  string // the folder and file, and its text
	}{
		"version 1":        {"4:memory:/x\n1:cpu,cpuacct:/a/b\n0::/c\n", "", "cpu,cpuacct/a/b/*/cpu.cfs_quota_us", "20000"},
		"version 2":        {"0::/a/b/c\n", "a", "a/*/cpu.max", "20000 100000"},
		"version 2 beside": {"5:pids:/\n0::/a/b\n", "unified/a", "unified/a/*/cpu.max", "20000 100000"},
		"none":             {"0::/a\n", "b", "", ""},
	} {
		root := t.TempDir()
		top := filepath.Join(root, controlGroups)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Join(root, "proc/self"), 0o755), os.MkdirAll(filepath.Join(top, "cpu,cpuacct/a/b"), 0o755), os.MkdirAll(filepath.Join(top, c.gives), 0o755),
			os.WriteFile(filepath.Join(root, "proc/self/cgroup"), []byte(c.self), 0o600), os.WriteFile(filepath.Join(top, c.gives, "cgroup.subtree_control"), []byte("cpuset cpu io\n"), 0o600)))
		_, err := newGroups(root, Spec{QuotaFar: 20})
		must.Equal(t, err == nil, c.want != "", "%s: %v", name, err)
		if err != nil {
			must.True(t, fault.KindOf(err) == fault.Unsupported && strings.Contains(fault.Sentence(err), "far.cpu.quota: no control group with a CPU quota can be made here") && fault.HintOf(err) != "", "%v", err)
			continue
		}
		found := must.Get(filepath.Glob(filepath.Join(top, c.want)))(t)
		must.Need(t, len(found) == 1, "%s: %v", name, found)
		must.Equal(t, string(must.Get(os.ReadFile(found[0]))(t)), c.says, "%s", name)
	}
}

// unprivileged is the ID of the unprivileged test user.
const unprivileged = 65534

// TestUnprivileged runs other tests of this package as an unprivileged user.
func TestUnprivileged(t *testing.T) {
	must.SkipIf(t, os.Geteuid() != 0, "only root can become another user; the other tests run unprivileged as it is")
	as := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
		return cmd.CombinedOutput()
	}
	if out, err := as("peer", "probe"); err != nil {
		t.Skipf("an unprivileged user may not have virtual hosts here: %s", bytes.TrimSpace(out))
	}
	out, err := as("-test.v", "-test.run", "^(TestDial|TestCloseLeavesNothing|TestKilledControllerLeavesNothing|TestFramesAreLostHeldBackAndDoubled|TestBundle)$")
	must.Need(t, err == nil, "%v\n%s", err, out)
	for _, name := range []string{"TestDial", "TestCloseLeavesNothing", "TestKilledControllerLeavesNothing", "TestFramesAreLostHeldBackAndDoubled/packet", "TestBundle"} {
		must.Contain(t, string(out), "--- PASS: "+name+" ", "%s did not pass as uid %d", name, unprivileged)
	}
}
