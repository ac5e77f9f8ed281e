package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/limits"
)

// middle is what stands between the two hosts of a pair.
type middle struct {
	*netns
	m string // its namespace
}

// Addresses of the middle, where it is a router, and of a web server beyond it.
const (
	routerNear = "10.77.0.254"
	routerFar  = "10.77.0.253"
	webAddr    = "10.88.0.2"
)

// newMiddle makes a pair of hosts with a namespace between them, whose links take
// 9000 bytes and whose own hosts hold 1500.
func newMiddle(t *testing.T) *middle {
	t.Helper()
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("needs ethtool")
	}
	word := strings.ToLower(rand.Text()[:6])
	name := func(s string) string { return fmt.Sprintf("lr%d-%s-%s", os.Getpid(), word, s) }
	n := &middle{netns: &netns{dir: t.TempDir(), a: name("a"), b: name("b")}, m: name("m")}
	for _, ns := range []string{n.a, n.b, n.m} {
		n.addNamespace(t, ns)
	}
	for host, end := range map[string]string{n.a: "va", n.b: "vb"} {
		n.join(t, host, end)
	}
	ip(t, "-n", n.a, "addr", "add", nearAddr+"/24", "dev", "v0")
	ip(t, "-n", n.b, "addr", "add", farAddr+"/24", "dev", "v0")
	return n
}

func (n *middle) addNamespace(t *testing.T, ns string) {
	t.Helper()
	ip(t, "netns", "add", ns)
	t.Cleanup(func() { removeNetns(t, ns) })
	ip(t, "-n", ns, "link", "set", "lo", "up")
}

// join joins v0 of a host to a link of the middle, which takes 9000 bytes. What
// the host sends are packets as they are on a wire: larger ones of segmentation
// offload would pass any link of this kind.
func (n *middle) join(t *testing.T, host, end string) {
	t.Helper()
	ip(t, "link", "add", "v0", "netns", host, "type", "veth", "peer", "name", end, "netns", n.m)
	ip(t, "-n", n.m, "link", "set", end, "mtu", "9000", "up")
	ip(t, "-n", host, "link", "set", "v0", "up")
	ip(t, "netns", "exec", host, "ethtool", "-K", "v0", "tso", "off", "gso", "off")
}

// bridged makes the middle a switch whose ports take mtu bytes.
func bridged(t *testing.T, mtu string) *middle {
	t.Helper()
	n := newMiddle(t)
	ip(t, "-n", n.m, "link", "add", "br0", "type", "bridge")
	for _, port := range []string{"va", "vb"} {
		ip(t, "-n", n.m, "link", "set", port, "mtu", mtu, "master", "br0")
	}
	ip(t, "-n", n.m, "link", "set", "br0", "up")
	return n
}

// routed makes the middle a router whose routes take 1500 bytes, and which says so.
func routed(t *testing.T) *middle {
	t.Helper()
	n := newMiddle(t)
	for _, e := range []struct{ host, end, own, router, peer string }{
		{n.a, "va", nearAddr, routerNear, farAddr}, {n.b, "vb", farAddr, routerFar, nearAddr},
	} {
		ip(t, "-n", n.m, "addr", "add", e.router+"/32", "dev", e.end)
		ip(t, "-n", n.m, "route", "add", e.own+"/32", "dev", e.end, "mtu", "1500")
		ip(t, "-n", e.host, "route", "add", e.peer+"/32", "via", e.router)
	}
	n.forward(t)
	return n
}

// forward has the middle forward packets.
func (n *middle) forward(t *testing.T) {
	t.Helper()
	ip(t, "netns", "exec", n.m, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")
}

// restoredMTU demands that both hosts hold 1500 again.
func (n *middle) restoredMTU(t *testing.T) {
	t.Helper()
	if a, b := n.mtu(t, "a"), n.mtu(t, "b"); a != "1500" || b != "1500" {
		t.Errorf("MTU %s and %s", a, b)
	}
}

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
		if err := validate("linerate/set/v1", r.out); err != nil {
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
	r := run(t, n.inside(t, "a", "set", "a.link.mtu=8000", "b.link.mtu=8000", "--both", "--for", "1s", "--json", n.agent("b")))
	if err := validate("linerate/set/v1", r.out); err != nil || r.code != 0 || strings.Count(r.out, `"knob": "link.mtu"`) != 2 || strings.Count(r.out, `"ok": true`) != 2 || strings.Count(r.out, `"passes": 8000`) != 2 {
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

// TestSetPerHost gives each host its own value.
func TestSetPerHost(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	p := start(t, n.inside(t, "a", "set", "a.tcp.sack=off", "b.tcp.recv_buffer_max=64KiB", "--both", "--for", "3s", n.agent("b")))
	eventually(t, 20*time.Second, "the change", func() bool {
		now := n.bothKnobs(t)
		return now.a.sack != before.a.sack && now.a.rmem == before.a.rmem && now.b.sack == before.b.sack && now.b.rmem != before.b.rmem
	})
	if r := p.wait(t, 30*time.Second); r.code != 0 || strings.Count(r.out, ": back to ") != 2 {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	n.restored(t, before)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"b.tcp.sack=off"}, "b.tcp.sack: no HOST is named"},
		{[]string{"a.tcp.sack=off", n.agent("b")}, "a.tcp.sack: without --both the change is about HOST alone"},
		{[]string{"far.tcp.sack=off", n.agent("b")}, `far.tcp.sack: unknown host "far": write a. (near) or b. (far)`},
		{[]string{"a.tcp.sack=off", "tcp.sack=off", "--both", n.agent("b")}, "tcp.sack is set twice"},
	} {
		if r := run(t, n.inside(t, "a", append([]string{"set"}, c.args...)...)); r.code != 2 || !strings.Contains(r.err, c.says) {
			t.Errorf("%q: exit code %d\n%s%s", c.args, r.code, r.out, r.err)
		}
	}
	n.restored(t, before)
}

// listenIn listens on port 80 of every address of a namespace.
func listenIn(t *testing.T, ns string) net.Listener {
	t.Helper()
	type made struct {
		l   net.Listener
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		f, err := os.Open("/run/netns/" + ns)
		if err != nil {
			done <- made{nil, err}
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":80")
		done <- made{l, err}
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	return m.l
}

// withWeb adds a web server beyond the middle, which is a switch for the hosts and
// their router. It forwards 1500 bytes and tells nobody: messages of ICMP have no
// way out of it.
func withWeb(t *testing.T) *middle {
	t.Helper()
	n := bridged(t, "9000")
	web := strings.TrimSuffix(n.m, "m") + "w"
	n.addNamespace(t, web)
	n.join(t, web, "vw")
	ip(t, "-n", web, "link", "set", "v0", "mtu", "9000")
	ip(t, "-n", web, "addr", "add", webAddr+"/24", "dev", "v0")
	ip(t, "-n", web, "route", "add", "default", "via", "10.88.0.1")
	ip(t, "-n", n.m, "addr", "add", "10.88.0.1/32", "dev", "vw")
	ip(t, "-n", n.m, "addr", "add", routerNear+"/32", "dev", "br0")
	ip(t, "-n", n.m, "link", "set", "br0", "mtu", "9000")
	ip(t, "-n", n.m, "route", "add", "10.88.0.0/24", "dev", "vw", "mtu", "1500")
	ip(t, "-n", n.m, "route", "add", "10.77.0.0/24", "dev", "br0", "mtu", "1500")
	ip(t, "-n", n.m, "rule", "add", "pref", "10", "iif", "lo", "ipproto", "icmp", "blackhole")
	for _, host := range []string{n.a, n.b} {
		ip(t, "-n", host, "route", "add", "default", "via", routerNear)
	}
	n.forward(t)
	page := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }), ReadHeaderTimeout: time.Minute}
	l := listenIn(t, web)
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	return n
}

// TestMTUKillsAWebPage is the article whose web pages died after MTU 9000: with the
// page as a canary the change goes back; with a work-around the page lives and the
// change stays.
func TestMTUKillsAWebPage(t *testing.T) {
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
			if err := validate("linerate/set/v1", r.out); err != nil || r.code != 1 || t.Failed() {
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

// TestProfileApply sets both parts of a profile as one change, tells what is
// different from where it was tried, and keeps it when told to.
func TestProfileApply(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	file := n.dir + "/pair.yaml"
	text := "profile: 1\nhosts:\n- {role: near, kernel: 2.6.9, knobs: {tcp.sack: off}}\n- {role: far, system: freebsd, knobs: {tcp.recv_buffer_max: 64KiB}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := n.bothKnobs(t)
	tt := onTerminal(t, n.inside(t, "a", "profile", "apply", file, "--both", n.agent("b")))
	tt.asked(t, "y\n")
	r := tt.wait(t, time.Minute)
	now := n.bothKnobs(t)
	if r.code != 0 || now.a.sack == before.a.sack || now.a.rmem != before.a.rmem || now.b.sack != before.b.sack || now.b.rmem == before.b.rmem {
		t.Errorf("exit code %d: %+v, before %+v\n%s", r.code, now, before, r.out)
	}
	for _, says := range []string{"tried with kernel 2.6.9", "tried on freebsd, and this host runs linux"} {
		if !strings.Contains(r.out, says) {
			t.Errorf("it does not say %q\n%s", says, r.out)
		}
	}
	r = run(t, n.inside(t, "a", "profile", "apply", file, "--both", "--json", n.agent("b")))
	if err := validate("linerate/set/v1", r.out); err != nil || r.code != 0 || !strings.Contains(r.out, `"nothing to do"`) || !strings.Contains(r.err, "1 of 1 settings of the profile are there already") {
		t.Errorf("again: exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	for _, args := range [][]string{{"undo", n.agent("b")}, {"undo"}} {
		if r := run(t, n.inside(t, "a", args...)); r.code != 0 || strings.Count(r.out, ": back to ") != 1 {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
		}
	}
	n.restored(t, before)
	if r := run(t, n.inside(t, "a", "profile", "apply", file)); r.code != 2 || !strings.Contains(r.err, "choose with --role") {
		t.Errorf("without a role: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}

// TestMTUGoodput keeps MTUs of 9000 on a wire of 1 Gbit/s: goodput rises to the
// new ceiling. Where this machine moves no more without the wire's limit, the
// processors are what limits, and the test says so.
func TestMTUGoodput(t *testing.T) {
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

// TestSetKilledBetweenConfirmations kills the controller when the far host was told
// to keep a change and this one was not: the far one keeps it, this one goes back,
// and the next change says so.
func TestSetKilledBetweenConfirmations(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	before := n.bothKnobs(t)
	tt := onTerminal(t, n.inside(t, "a", setArgs("--both", n.agent("b"))...))
	eventually(t, time.Minute, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	dog := relatives(tt.cmd.Process.Pid, n.dir).dogB
	if dog == 0 {
		t.Fatal("no watchdog on host b")
	}
	// A watchdog that stands still heeds the confirmation later: the controller waits.
	if err := unix.Kill(dog, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	tt.asked(t, "y\n")
	eventually(t, time.Minute, "the confirmation on host b", func() bool {
		_, noted := os.Stat(n.dir + "/confirming.json")
		told, err := filepath.Glob(n.state("b") + "/confirm*")
		return noted == nil && err == nil && len(told) > 0
	})
	tt.signal(t, unix.SIGKILL)
	if err := unix.Kill(dog, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "a process is left", func() bool { return len(netnsPIDs(t.Context(), n.a))+len(netnsPIDs(t.Context(), n.b)) == 0 })
	n.changed(t, before, false, true)

	for _, c := range []struct {
		args []string
		says []string
	}{
		{nil, []string{"was cut short on ", "it is not in place here", " may hold it: linerate undo 'exec:"}},
		{[]string{"--both", n.agent("b")}, []string{" still holds tcp.sack=off, tcp.recv_buffer_max=64 KiB, this machine does not: linerate undo 'exec:"}},
	} {
		r := run(t, n.inside(t, "a", append([]string{"set", "tcp.timestamps=off", "--for", "1s"}, c.args...)...))
		for _, says := range c.says {
			if r.code != 0 || !strings.Contains(r.err, says) {
				t.Errorf("exit code %d, not %q\n%s%s", r.code, says, r.out, r.err)
			}
		}
	}
	if r := run(t, n.inside(t, "a", "set", "tcp.timestamps=off", "--for", "1s")); strings.Contains(r.err, "cut short") {
		t.Errorf("told again\n%s", r.err)
	}
	if r := run(t, n.inside(t, "a", "undo", n.agent("b"))); r.code != 0 {
		t.Errorf("undo: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	n.restored(t, before)
}
