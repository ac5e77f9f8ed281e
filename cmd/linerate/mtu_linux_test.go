package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/limits"
)

// TestMTUThroughASmallMiddle raises MTUs on ways that pass 1500 bytes: it goes
// back before the deadline, and the sentence says what kind of way it is.
func TestMTUThroughASmallMiddle(t *testing.T) {
	needRoot(t)
	const deadline = 5 * time.Minute
	refuse := func(t *testing.T, n *middle, args []string, says ...string) {
		began := time.Now()
		r := run(t, n.inside(t, "a", append([]string{"set", "link.mtu=9000", "--for", deadline.String(), "--json"}, args...)...))
		if r.code != 1 || time.Since(began) > deadline/2 {
			t.Errorf("exit code %d after %v", r.code, time.Since(began))
		}
		for _, text := range append(says, "all settings are back", "link.mtu=1500 fits") {
			if !strings.Contains(r.err, text) {
				t.Errorf("it does not say %q", text)
			}
		}
		if err := validate("linerate/set/v2", r.out); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s%s", r.out, r.err)
		}
		n.restoredMTU(t)
	}
	atOnce(t, 3, map[string]func(*testing.T){
		"one side": func(t *testing.T) {
			n := bridged(t, "1500")
			refuse(t, n, []string{n.agent("b")}, "has an MTU of 9000 and ", "passes packets of 1500 bytes, not 9000: ", "has an MTU of 1500 and drops larger packets silently")
		},
		"black hole": func(t *testing.T) {
			n := bridged(t, "1500")
			refuse(t, n, []string{"--both", n.agent("b")},
				"passes packets of 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)")
		},
		"router": func(t *testing.T) {
			n := routed(t)
			refuse(t, n, []string{"--both", n.agent("b")}, "passes packets of 1500 bytes, not 9000, and says so (router "+routerNear+": MTU 1500): TCP copes",
				"(router "+routerFar+": MTU 1500)")
		},
		"one direction": func(t *testing.T) { // only what b sends is lost
			n := bridged(t, "9000")
			ip(t, "-n", n.m, "link", "set", "va", "mtu", "9000")
			ip(t, "netns", "exec", n.m, "tc", "qdisc", "add", "dev", "va", "root", "tbf", "rate", "10gbit", "burst", "1600", "limit", "10000000")
			r := run(t, n.inside(t, "a", "set", "link.mtu=9000", "--for", "5m", "--both", n.agent("b")))
			if r.code != 1 || strings.Count(r.err, "passes packets of ") != 1 || !strings.Contains(r.err, "(a black hole)") {
				t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
			}
			n.restoredMTU(t)
		},
	})
}

// TestMTUKept raises the MTUs on a way that passes them, by value and as the
// largest, and keeps them.
func TestMTUKept(t *testing.T) {
	needRoot(t)
	n := bridged(t, "9000")
	tt := onTerminal(t, n.inside(t, "a", "set", "link.mtu=9000", "--both", "--for", "2m", n.agent("b")))
	eventually(t, time.Minute, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	tt.asked(t, "y\n")
	if r := tt.wait(t, time.Minute); r.code != 0 || n.mtu(t, "a") != "9000" || n.mtu(t, "b") != "9000" {
		t.Fatalf("exit code %d, MTU %s and %s\n%s", r.code, n.mtu(t, "a"), n.mtu(t, "b"), r.out)
	}
	if entries, _ := os.ReadDir(n.dir); len(entries) == 0 {
		t.Error("no journal")
	}
	if _, err := os.Stat(n.dir + "/confirming.json"); err == nil {
		t.Error("the note of a confirmation is left")
	}
	// Lowered on one side by another change, each end with a value of its own.
	r := run(t, n.inside(t, "a", "set", "near.link.mtu=8000", "far.link.mtu=8000", "--both", "--for", "1s", "--json", n.agent("b")))
	if err := validate("linerate/set/v2", r.out); err != nil || r.code != 0 || strings.Count(r.out, `"knob": "link.mtu"`) != 2 || strings.Count(r.out, `"ok": true`) != 2 || strings.Count(r.out, `"passes": 8000`) != 2 {
		t.Errorf("exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	for _, args := range [][]string{{"undo", n.agent("b")}, {"undo"}} {
		if r := run(t, n.inside(t, "a", args...)); r.code != 0 {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	n.restoredMTU(t)
}

// TestMTULargest sets the largest MTU that both drivers take.
func TestMTULargest(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	r := run(t, n.inside(t, "a", "set", "link.mtu=max", "--both", "--for", "1s", n.agent("b")))
	if r.code != 0 || strings.Count(r.err, "link.mtu=max is 65535: ") != 2 || strings.Count(r.out, "1500 -> 65535") != 2 && strings.Count(r.out, "-> 64 KiB") != 2 && !strings.Contains(r.out, "65535") {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestMTUKillsAWebPage is the article whose web pages died after MTU 9000: with the
// page as a canary the change goes back; with a work-around the page lives and the
// change stays.
func TestMTUKillsAWebPage(t *testing.T) {
	t.Parallel()
	needRoot(t)
	args := func(n *middle, more ...string) []string {
		return append([]string{"set", "link.mtu=9000", "--both", "--canary", "http://" + webAddr + "/afolder/", n.agent("b")}, more...)
	}
	atOnce(t, 2, map[string]func(*testing.T){
		"undone": func(t *testing.T) {
			n := withWeb(t)
			r := run(t, n.inside(t, "a", args(n, "--for", "5m", "--json")...))
			for _, text := range []string{
				"since the change http://" + webAddr + "/afolder/ does not answer", "all settings are back",
				"to " + webAddr + " passes packets of 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)",
				"--work-around takes small segments to there", "route.mtu=1500 or route.advmss=1460",
			} {
				if !strings.Contains(r.err, text) {
					t.Errorf("it does not say %q", text)
				}
			}
			if err := validate("linerate/set/v2", r.out); err != nil || r.code != 1 || t.Failed() {
				t.Errorf("exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
			}
			n.restoredMTU(t)
		},
		"work-around": func(t *testing.T) {
			n := withWeb(t)
			tt := onTerminal(t, n.inside(t, "a", args(n, "--for", "2m", "--work-around")...))
			eventually(t, 90*time.Second, "the question", func() bool {
				shown := tt.shown.String()
				return strings.Contains(shown, "keep it? [y/N]") || strings.Contains(shown, "all settings are back")
			})
			tt.asked(t, "y\n")
			r := tt.wait(t, time.Minute)
			if r.code != 0 || n.mtu(t, "a") != "9000" || n.mtu(t, "b") != "9000" {
				t.Fatalf("exit code %d, MTU %s and %s\n%s", r.code, n.mtu(t, "a"), n.mtu(t, "b"), r.out)
			}
			for _, host := range []string{"a", "b"} {
				if routes := ip(t, "-n", n.name(host), "route", "show", "default"); !strings.Contains(routes, "mtu 1500") {
					t.Errorf("host %s: %s\n%s", host, routes, r.out)
				}
			}
			for _, args := range [][]string{{"undo", n.agent("b")}, {"undo"}} {
				if r := run(t, n.inside(t, "a", args...)); r.code != 0 || strings.Count(r.out, ": back to ") < 2 {
					t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
				}
			}
			n.restoredMTU(t)
			if routes := ip(t, "-n", n.a, "route", "show", "default"); strings.Contains(routes, "mtu") {
				t.Errorf("the route is left changed: %s", routes)
			}
		},
	})
}

// TestTruthOfMTU keeps MTUs of 9000 on a wire of 1 Gbit/s: goodput rises to the
// new ceiling. Where this machine moves no more without the wire's limit, the
// processors are what limits, and the test says so.
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
	goodput := func() float64 {
		r := run(t, n.inside(t, "a", "test", n.agent("b"), "--to", "-t", "3s", "--json"))
		v := decode[document](t, r.out).goodput("to")
		if len(v) == 0 {
			t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
		return v[0]
	}
	ceiling := func(mtu int) float64 {
		c, err := limits.Wire{Rate: 1e9, MTU: mtu, Timestamps: true}.Goodput()
		if err != nil {
			t.Fatal(err)
		}
		return float64(c)
	}
	shaped("add")
	before := goodput()
	tt := onTerminal(t, n.inside(t, "a", "set", "link.mtu=9000", "--both", "--for", "2m", n.agent("b")))
	eventually(t, time.Minute, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	tt.asked(t, "y\n")
	if r := tt.wait(t, time.Minute); r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.out)
	}
	const tries, within = 3, 0.015
	var after, free float64
	for range tries {
		after = max(after, goodput())
		if after > ceiling(9000)*(1-within) {
			break
		}
		shaped("del")
		free = max(free, goodput())
		shaped("add")
	}
	t.Logf("MTU 1500: %.1f of %.1f Mbit/s; MTU 9000: %.1f of %.1f Mbit/s; without the wire's limit %.0f Mbit/s", before/1e6, ceiling(1500)/1e6, after/1e6, ceiling(9000)/1e6, free/1e6)
	switch {
	case after > ceiling(9000)*1.01: // the bucket is full at the start: 1 MB of some 370
		t.Errorf("more than the wire carries")
	case after > ceiling(9000)*(1-within) && after > before:
	case free < 2*ceiling(9000):
		t.Skipf("the processors limit: %.0f Mbit/s without the wire's limit", free/1e6)
	default:
		t.Errorf("%.1f Mbit/s of %.1f", after/1e6, ceiling(9000)/1e6)
	}
}
