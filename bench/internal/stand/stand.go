// Package stand is the test stand of the benchmarks: two network namespaces joined by a veth
// pair, in which a server and a client run as processes of their own. wait4 returns their CPU
// time.
//
// It needs a network namespace in which it may create interfaces, and a mount namespace with
// its own /run: bench/run creates both, and they end with it.
package stand

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/measure/sockio"
)

// The two namespaces, the interface in each, and the addresses.
const (
	Near        = "near"
	Far         = "far"
	Device      = "l0"
	NearAddress = "10.77.0.1"
	FarAddress  = "10.77.0.2"
	Network     = "10.77.0.0/24"
)

// Congestion is the congestion control of the routes of both namespaces, and so of every
// program without an option for it.
const Congestion = "cubic"

// Stand is the pair of namespaces.
type Stand struct{}

// Make sets up the namespaces. Neither caches TCP metrics of earlier connections, which would
// make a run depend on the one before.
func Make(ctx context.Context) (*Stand, error) {
	s := &Stand{}
	for _, c := range []string{
		"netns add near", "netns add far",
		"link add l0 netns near type veth peer name l0 netns far",
		"-n near address add " + NearAddress + "/24 dev l0", "-n far address add " + FarAddress + "/24 dev l0",
		"-n near link set l0 up", "-n far link set l0 up",
		"-n near link set lo up", "-n far link set lo up",
	} {
		if err := run(ctx, "ip", strings.Fields(c)...); err != nil {
			return nil, err
		}
	}
	for space, address := range map[string]string{Near: NearAddress, Far: FarAddress} {
		if err := settle(ctx, space, address); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// settle sets a namespace's TCP defaults. The congestion control is set on the route: a
// namespace may only choose a default that the system allows to all users (net/ipv4/tcp_cong.c
// tcp_set_default_congestion_control).
func settle(ctx context.Context, space, address string) error {
	err := run(ctx, "ip", "-n", space, "route", "change", Network, "dev", Device, "proto", "kernel", "scope", "link",
		"src", address, "congctl", Congestion)
	if err != nil {
		return err
	}
	return run(ctx, "ip", "netns", "exec", space, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save")
}

// MTU sets the MTU of both ends.
func (*Stand) MTU(ctx context.Context, bytes int) error {
	for _, space := range []string{Near, Far} {
		if err := run(ctx, "ip", "-n", space, "link", "set", Device, "mtu", strconv.Itoa(bytes)); err != nil {
			return err
		}
	}
	return nil
}

// Queue makes kind the root queue of the near interface; "noqueue" is the default of a veth.
// Some kernels lack some kinds.
func (*Stand) Queue(ctx context.Context, kind string) error {
	return run(ctx, "tc", "-n", Near, "qdisc", "replace", "dev", Device, "root", kind)
}

// run runs a program and discards its output.
func run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// Installed reports whether a program can be started.
func Installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// Output returns the first line that a program prints; "" if it cannot be started. Programs
// exit with odd codes after --version: the text counts.
func Output(ctx context.Context, program string, args ...string) string {
	b, _ := exec.CommandContext(ctx, program, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return strings.TrimSpace(line)
}

// Help reports whether the help of a program mentions an option.
func Help(ctx context.Context, program, option string) bool {
	b, _ := exec.CommandContext(ctx, program, "--help").CombinedOutput()
	return bytes.Contains(b, []byte(option))
}

// Facts returns the conditions of all results, one per line.
func Facts(ctx context.Context) []string {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(b))
	}
	cpu := "unknown"
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	qdisc := Output(ctx, "ip", "-n", Near, "-o", "link", "show", Device)
	if _, after, found := strings.Cut(qdisc, "qdisc "); found {
		qdisc, _, _ = strings.Cut(after, " ")
	}
	load := strings.Fields(read("/proc/loadavg"))
	return []string{
		fmt.Sprintf("machine: %d cores, %s, Linux %s, %s, load %s", runtime.NumCPU(), cpu,
			read("/proc/sys/kernel/osrelease"), runtime.Version(), strings.Join(load[:min(3, len(load))], " ")),
		fmt.Sprintf("path: veth pair between two network namespaces, qdisc %s, offloads as the kernel sets them, congestion control %s", qdisc, Congestion),
	}
}

// Busy returns how many cores are busy during a time in which the stand does nothing.
func Busy(ctx context.Context, d time.Duration) (float64, error) {
	before, err := sockio.SystemCPU()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, err
	}
	after, err := sockio.SystemCPU()
	if err != nil {
		return 0, err
	}
	return max(0, (after-before).Seconds()/time.Since(begun).Seconds()), nil
}

// Quiet waits until the machine is quiet, for at most patience, and returns how many cores
// other work kept busy in the last check.
func Quiet(ctx context.Context, patience time.Duration) (float64, error) {
	const look = 500 * time.Millisecond
	until := time.Now().Add(patience)
	for {
		busy, err := Busy(ctx, look)
		if err != nil || busy <= BusyLimit || time.Now().After(until) {
			return busy, err
		}
	}
}

// BusyLimit is the part of a core that other work may use: above it ratios on two cores mean
// little.
const BusyLimit = 0.05

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// inside returns a command in a network namespace. ip(8) executes the command, so that wait4
// returns only the command's CPU time.
func inside(ctx context.Context, space string, argv []string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", slices.Concat([]string{"netns", "exec", space}, argv)...)
}
