//go:build truth && linux

package main

import (
	"os/exec"
	"testing"

	"linerate/internal/core/limits"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfMTU keeps MTUs of 9000 on a wire of 1 Gbit/s: goodput rises to the new ceiling.
// The test is skipped where this machine moves no more without the wire's limit: then the
// processors are what limits.
func TestTruthOfMTU(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("tc"); err != nil {
		t.Skip("needs tc from iproute2")
	}
	n := bridged(t, "9000")
	shaped := func(do string) {
		for _, port := range []string{"va", "vb"} { // 24 bytes of a frame are not in the packet, see package wire
			args := []string{"netns", "exec", n.m, "tc", "qdisc", do, "dev", port, "root"}
			if do == "add" {
				args = append(args, "tbf", "rate", "1gbit", "burst", "1mb", "limit", "4mb", "overhead", "24")
			}
			ip(t, args...)
		}
	}
	goodput := func(t testing.TB) float64 {
		r := run(t, n.inside(t, "near", "test", n.agent("far"), "--to", "-t", "3s", "--json"))
		v := decode[document](t, r.out).goodput("to")
		must.Need(t, len(v) != 0, "exit code %d\n%s%s", r.code, r.out, r.err)
		return v[0] / 1e6
	}
	ceiling := func(mtu int) float64 {
		c := must.Get(limits.Wire{Rate: 1e9, MTU: mtu, Timestamps: true}.Goodput())(t)
		return float64(c) / 1e6
	}
	shaped("add")
	before := goodput(t)
	tt := onTerminal(t, n.inside(t, "near", "set", "link.mtu=9000", "--both", "--for", "2m", n.agent("far")))
	tt.asked(t, "y\n")
	tt.wait(t, patience).succeeds(t)
	shaped("del")
	if free := goodput(t); free < 2*ceiling(9000) {
		t.Skipf("the processors limit: %.0f Mbit/s without the wire's limit", free)
	}
	shaped("add")
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		// The bucket is full at the start: 1 MB of some 370.
		after := goodput(try)
		try.Claim("goodput at MTU 9000", after, 0.985*ceiling(9000), 1.01*ceiling(9000), "Mbit/s")
		try.Claim("gain", after/before, 1, 2, "times the goodput at 1500")
	})
}
