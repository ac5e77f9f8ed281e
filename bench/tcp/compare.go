package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The two namespaces and their addresses.
const (
	nearSpace, farSpace = "near", "far"
	farAddress          = "10.77.0.2"
	iperfPort           = "5201"
	ownPort             = "5299"
)

// result is one run.
type result struct {
	bits  float64       // per second, at the receiver
	bytes float64       // received
	cpu   time.Duration // user and system of both processes, by wait4
	// others is how many cores something else kept busy meanwhile, by /proc/stat.
	others float64
}

// kind is what is compared: both tools in one situation.
type kind struct {
	mtu, streams int
	own, iperf   int // bytes per write; 0 is the tool's default
}

// kinds are the rows of the table.
func kinds(mtu int) []kind {
	var out []kind
	for _, streams := range []int{1, 8} {
		out = append(out,
			kind{mtu, streams, 0, 0},
			kind{mtu, streams, 128 << 10, 128 << 10},
			kind{mtu, streams, 512 << 10, 512 << 10})
	}
	return out
}

// compare runs everything and writes the table.
func compare(ctx context.Context, w io.Writer, o options) error {
	for _, c := range []string{
		"netns add near", "netns add far",
		"link add l0 netns near type veth peer name l0 netns far",
		"-n near address add 10.77.0.1/24 dev l0", "-n far address add 10.77.0.2/24 dev l0",
		"-n near link set l0 up", "-n far link set l0 up",
	} {
		if err := ip(ctx, c); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	head(ctx, w, o)
	for _, mtu := range []int{1500, 9000} {
		for _, space := range []string{nearSpace, farSpace} {
			if err := ip(ctx, fmt.Sprintf("-n %s link set l0 mtu %d", space, mtu)); err != nil {
				return err
			}
		}
		// Runs of one kind are paired in time: the rounds go over all kinds.
		own, iperf := make(map[kind][]result), make(map[kind][]result)
		for round := range o.rounds {
			for _, k := range kinds(mtu) {
				if err := pair(ctx, o, self, k, round%2 == 1, own, iperf); err != nil {
					return err
				}
			}
		}
		for _, k := range kinds(mtu) {
			row(w, k, own[k], iperf[k])
		}
	}
	return nil
}

// pair runs both tools once, iperf3 first in every other round.
func pair(ctx context.Context, o options, self string, k kind, swap bool, own, iperf map[kind][]result) error {
	turns := []func() error{
		func() error {
			r, err := runOwn(ctx, o, self, k)
			own[k] = append(own[k], r)
			return err
		},
		func() error {
			r, err := runIperf(ctx, o, k)
			iperf[k] = append(iperf[k], r)
			return err
		},
	}
	if swap {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		if err := turn(); err != nil {
			return err
		}
	}
	return nil
}

// ip runs ip(8).
func ip(ctx context.Context, args string) error {
	out, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, bytes.TrimSpace(out))
	}
	return nil
}

// head writes what the figures depend on.
func head(ctx context.Context, w io.Writer, o options) {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(b))
	}
	output := func(name string, args ...string) string {
		// iperf3 --version ends with 0, others may not: the text counts.
		b, _ := exec.CommandContext(ctx, name, args...).Output()
		line, _, _ := strings.Cut(string(b), "\n")
		return strings.TrimSpace(line)
	}
	cpu := "unknown"
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	qdisc := output("ip", "-n", nearSpace, "-o", "link", "show", "l0")
	if _, after, found := strings.Cut(qdisc, "qdisc "); found {
		qdisc, _, _ = strings.Cut(after, " ")
	}
	fmt.Fprintf(w, "- machine: %d cores, %s, Linux %s, %s, load %s\n", runtime.NumCPU(), cpu,
		read("/proc/sys/kernel/osrelease"), runtime.Version(), read("/proc/loadavg"))
	fmt.Fprintf(w, "- path: veth pair, qdisc %s, offloads as the kernel sets them\n", qdisc)
	fmt.Fprintf(w, "- peer: %s\n", output("iperf3", "--version"))
	fmt.Fprintf(w, "- both: congestion control %s, TCP_NODELAY %t, %d rounds of %v, nothing omitted, rate at the receiver\n",
		o.congestion, !o.nagle, o.rounds, o.duration)
	fmt.Fprintf(w, "- ratios are taken within a round: median [range]; CPU is user and system of both processes, by wait4\n")
	fmt.Fprintf(w, "- others: cores that anything else kept busy during the runs, median; above 0.05 the row means little\n\n")
	fmt.Fprintln(w, "| MTU | streams | block linerate / iperf3 | Gbit/s linerate | Gbit/s iperf3 | rate, linerate to iperf3 | CPU s/GB linerate | CPU s/GB iperf3 | CPU, linerate to iperf3 | others |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|")
}

// row writes a line of the table.
func row(w io.Writer, k kind, own, iperf []result) {
	rate := func(r result) float64 { return r.bits / 1e9 }
	cost := func(r result) float64 { return r.cpu.Seconds() / (r.bytes / 1e9) }
	others := func(r result) float64 { return r.others }
	ratio := func(f func(result) float64) string {
		v := make([]float64, len(own))
		for i := range own {
			v[i] = f(own[i]) / f(iperf[i])
		}
		slices.Sort(v)
		return fmt.Sprintf("%.2f [%.2f-%.2f]", median(v), v[0], v[len(v)-1])
	}
	middle := func(rs []result, f func(result) float64) float64 {
		v := make([]float64, len(rs))
		for i, r := range rs {
			v[i] = f(r)
		}
		slices.Sort(v)
		return median(v)
	}
	fmt.Fprintf(w, "| %d | %d | %s / %s | %.1f | %.1f | %s | %.3f | %.3f | %s | %.2f |\n", k.mtu, k.streams,
		size(k.own), size(k.iperf), middle(own, rate), middle(iperf, rate), ratio(rate),
		middle(own, cost), middle(iperf, cost), ratio(cost), middle(slices.Concat(own, iperf), others))
}

// median of sorted v, which is not empty.
func median(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }

func size(n int) string {
	if n == 0 {
		return "default"
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// inSpace returns a command in a network namespace. ip(8) becomes the command,
// so that wait4 tells the CPU time of the command and nothing else.
func inSpace(ctx context.Context, space, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", space, program}, args...)...)
	c.Stderr = os.Stderr
	return c
}

// listening waits until a socket in the far namespace listens on port.
func listening(ctx context.Context, port string) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		out, err := inSpace(ctx, farSpace, "ss", "-Hltn", "sport", "=", ":"+port).Output()
		if err != nil {
			return fmt.Errorf("look for a listener on port %s: %w", port, err)
		}
		if len(bytes.TrimSpace(out)) > 0 {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for a listener on port %s: %w", port, context.Cause(ctx))
		}
	}
}

// name is a program's name for errors.
func name(c *exec.Cmd) string { return filepath.Base(c.Args[4]) }
