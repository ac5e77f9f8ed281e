//go:build truth && linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/truth"
)

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
