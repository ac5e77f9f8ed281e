//go:build truth && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/truth"
)

// star makes hosts around a switch, each with a link of this rate, and returns them as hosts of a
// mesh. Host slow, from 1, has half the rate.
func star(t testing.TB, hosts, slow, mbit int) (mesh []string) {
	t.Helper()
	needRoot(t)
	name := func(i int) string { return fmt.Sprintf("lr%d-%s-%d", os.Getpid(), strings.ToLower(t.Name()), i) }
	dir := t.TempDir()
	for i := range hosts + 1 {
		ip(t, "netns", "add", name(i))
		t.Cleanup(func() { removeNetns(t, name(i)) })
	}
	ip(t, "-n", name(0), "link", "add", "br0", "up", "type", "bridge")
	for i := 1; i <= hosts; i++ {
		port, rate := fmt.Sprintf("p%d", i), mbit
		if i == slow {
			rate /= 2
		}
		ip(t, "link", "add", "v0", "netns", name(i), "type", "veth", "peer", "name", port, "netns", name(0))
		ip(t, "-n", name(i), "addr", "add", fmt.Sprintf("10.78.0.%d/24", i), "dev", "v0")
		for _, up := range [][2]string{{name(i), "lo"}, {name(i), "v0"}, {name(0), port}} {
			ip(t, "-n", up[0], "link", "set", up[1], "up")
		}
		ip(t, "-n", name(0), "link", "set", port, "master", "br0")
		for _, end := range [][2]string{{name(i), "v0"}, {name(0), port}} {
			ip(t, "netns", "exec", end[0], "tc", "qdisc", "add", "dev", end[1], "root", "tbf", "rate", fmt.Sprintf("%dmbit", rate), "burst", "32kb", "latency", "20ms")
		}
		mesh = append(mesh, fmt.Sprintf("h%d=exec:10.78.0.%d ip netns exec %s %s agent --state %s", i, i, name(i), binary, filepath.Join(dir, fmt.Sprint(i))))
	}
	return mesh
}

// TestTruthOfMesh: one of five hosts is slowed to half its rate. The mesh names only that one
// within five minutes, and exits with the code for a health check (fleet.md section 12).
func TestTruthOfMesh(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		began := time.Now()
		args := append([]string{"mesh", "--without-here", "--fail-on", "odd", "--db", filepath.Join(try.TempDir(), "r.db")}, star(try, 5, 3, 40)...)
		r := run(try, command(try, args...))
		try.Claim("mesh of five hosts", time.Since(began).Seconds(), 0, 300, "s")
		r.ends(try, 8, "linerate: odd: h3\n")
		r.prints(try, "h3 sends", " % of what the others do")
	})
}

// TestTruthOfWatch: a steady path is not reported; a path whose rate falls by a quarter is
// reported within four looks, with exit code 8, and so is its recovery.
func TestTruthOfWatch(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		hosts := star(try, 2, 0, 40)
		words := func(i int) (name, host string) {
			_, host, _ = strings.Cut(hosts[i], "=")
			return strings.Fields(host)[4], host
		}
		near, _ := words(0)
		far, host := words(1)
		db := filepath.Join(try.TempDir(), "r.db")
		look := func() result {
			cmd := command(try, "watch", host, "--once", "-t", "1s", "--wait", "0s", "--db", db)
			cmd.Args = append([]string{"ip", "netns", "exec", near}, cmd.Args...)
			cmd.Path = "/sbin/ip"
			return run(try, cmd)
		}
		within := func(code int, says string) {
			told := false
			for range 4 {
				r := look()
				if told = strings.Contains(r.out, says); told {
					r.ends(try, code)
					break
				}
			}
			try.Claim(fmt.Sprintf("%q within four looks", says), map[bool]float64{true: 1}[told], 1, 1, "")
		}
		for range 10 {
			look().succeeds(try)
		}
		ip(try, "netns", "exec", far, "tc", "qdisc", "change", "dev", "v0", "root", "tbf", "rate", "30mbit", "burst", "32kb", "latency", "20ms")
		within(8, "goodput from 10.78.0.2 is worse since")
		ip(try, "netns", "exec", far, "tc", "qdisc", "change", "dev", "v0", "root", "tbf", "rate", "40mbit", "burst", "32kb", "latency", "20ms")
		within(0, "goodput from 10.78.0.2 is better since")
	})
}
