package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// TestMTUThroughASmallMiddle raises MTUs on paths that pass 1500 bytes: the change is undone
// before the deadline, and the message says what kind of path it is.
func TestMTUThroughASmallMiddle(t *testing.T) {
	rootBeside(t)
	refuse := func(t *testing.T, n *middle, args []string, says ...string) {
		r := run(t, n.inside(t, "near", append([]string{"set", "link.mtu=9000", "--for", "5m", "--json"}, args...)...))
		must.Equal(t, r.code, 1, "exit code")
		for _, text := range append(says, "all settings are back", "link.mtu=1500 fits") {
			must.Contain(t, r.err, text, "it")
		}
		must.OK(t, validate("linerate/set/v1", r.out))
		if t.Failed() {
			t.Logf("%s%s", r.out, r.err)
		}
		n.restoredMTU(t)
	}
	beside(t, map[string]func(*testing.T){
		"one side": func(t *testing.T) {
			n := bridged(t, "1500")
			refuse(t, n, []string{n.agent("far")}, "has an MTU of 9000 and ", "passes packets of 1500 bytes, not 9000: ", "has an MTU of 1500 and drops larger packets silently")
		},
		"black hole": func(t *testing.T) {
			n := bridged(t, "1500")
			refuse(t, n, []string{"--both", n.agent("far")},
				"passes packets of 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)")
		},
		"router": func(t *testing.T) {
			n := routed(t)
			refuse(t, n, []string{"--both", n.agent("far")}, "passes packets of 1500 bytes, not 9000, and says so (router "+routerNear+": MTU 1500): TCP copes",
				"(router "+routerFar+": MTU 1500)")
		},
		"one direction": func(t *testing.T) { // only packets from the far host are lost
			n := bridged(t, "9000")
			ip(t, "-n", n.m, "link", "set", "va", "mtu", "9000")
			ip(t, "netns", "exec", n.m, "tc", "qdisc", "add", "dev", "va", "root", "tbf", "rate", "10gbit", "burst", "1600", "limit", "10000000")
			r := run(t, n.inside(t, "near", "set", "link.mtu=9000", "--for", "5m", "--both", n.agent("far")))
			must.True(t, r.code == 1 && strings.Count(r.err, "passes packets of ") == 1 && strings.Contains(r.err, "(a black hole)"), "exit code %d\n%s%s", r.code, r.out, r.err)
			n.restoredMTU(t)
		},
	})
}

// TestMTUThatVanishes: an experiment does not wait for packets that do not arrive. Settings that
// need them are left out, as the report says.
func TestMTUThatVanishes(t *testing.T) {
	needLab(t)
	args := []string{"run", "lab:rate=50mbit,rtt=2ms,pathmtu=1500", "--blocks", "2", "-t", "200ms", "--omit", "100ms", "--settle", "0s", "--no-twin", "--quiet"}
	r := run(t, command(t, append(args, "--factor", "link.mtu=1400,4000,9000")...))
	r.succeeds(t).prints(t, "1400", "left out 4000: packets of 4000 bytes do not arrive", "left out 9000: packets of 9000 bytes do not arrive")
	must.True(t, !strings.Contains(r.err, "is invalid"), "%s", r.err)
	run(t, command(t, append(args, "--factor", "link.mtu=4000,9000")...)).ends(t, 4, "nothing is left to measure: packets of 4000 bytes do not arrive to far; packets of 9000", "linerate check lab:")
}

// TestMTUKept raises the MTUs on a path that passes them, by value and as the largest, and keeps
// them.
func TestMTUKept(t *testing.T) {
	rootBeside(t)
	n := bridged(t, "9000")
	tt := onTerminal(t, n.inside(t, "near", "set", "link.mtu=9000", "--both", "--for", "2m", n.agent("far")))
	must.Until(t, "the question", func() bool { return strings.Contains(tt.shown.String(), "keep it? [y/N]") })
	tt.asked(t, "y\n")
	if r := tt.wait(t, patience); r.code != 0 || n.mtu(t, "near") != "9000" || n.mtu(t, "far") != "9000" {
		t.Fatalf("exit code %d, MTU %s and %s\n%s", r.code, n.mtu(t, "near"), n.mtu(t, "far"), r.out)
	}
	entries, _ := os.ReadDir(n.dir)
	must.True(t, len(entries) != 0, "no journal")
	must.Fail(t, must.Err(os.Stat(n.dir+"/confirming.json")), "the note of a confirmation is left")
	// Lowered by another change, each end with its own value.
	r := run(t, n.inside(t, "near", "set", "near.link.mtu=8000", "far.link.mtu=8000", "--both", "--for", "1s", "--json", n.agent("far")))
	if err := validate("linerate/set/v1", r.out); err != nil || r.code != 0 || strings.Count(r.out, `"knob": "link.mtu"`) != 2 || strings.Count(r.out, `"ok": true`) != 2 || strings.Count(r.out, `"passes": 8000`) != 2 {
		t.Errorf("exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	for _, args := range [][]string{{"undo", n.agent("far")}, {"undo"}} {
		run(t, n.inside(t, "near", args...)).ends(t, 0)
	}
	n.restoredMTU(t)
}

// TestMTULargest sets the largest MTU that both drivers accept.
func TestMTULargest(t *testing.T) {
	n := netnsBeside(t)
	r := run(t, n.inside(t, "near", "set", "link.mtu=max", "--both", "--for", "1s", n.agent("far")))
	must.True(t, r.code == 0 && strings.Count(r.err, "link.mtu=max is 65535: ") == 2 && (strings.Count(r.out, "1500 -> 65535") == 2 || strings.Count(r.out, "-> 64 KiB") == 2 || strings.Contains(r.out, "65535")), "exit code %d\n%s%s", r.code, r.out, r.err)
}

// TestMTUKillsAWebPage is the article whose web pages died after MTU 9000: with the page as a
// canary the change is undone; with a work-around the page works and the change stays.
func TestMTUKillsAWebPage(t *testing.T) {
	rootBeside(t)
	args := func(n *middle, more ...string) []string {
		return append([]string{"set", "link.mtu=9000", "--both", "--canary", "http://" + webAddr + "/afolder/", n.agent("far")}, more...)
	}
	beside(t, map[string]func(*testing.T){
		"undone": func(t *testing.T) {
			n := withWeb(t)
			r := run(t, n.inside(t, "near", args(n, "--for", "5m", "--json")...))
			for _, text := range []string{
				"since the change http://" + webAddr + "/afolder/ does not answer", "all settings are back",
				"to " + webAddr + " passes packets of 1500 bytes, not 9000: something between them has a smaller MTU and drops larger packets silently (a black hole)",
				"--work-around takes small segments to there", "route.mtu=1500 or route.advmss=1460",
			} {
				must.Contain(t, r.err, text, "it")
			}
			err := validate("linerate/set/v1", r.out)
			must.True(t, err == nil && r.code == 1 && !t.Failed(), "exit code %d, %v\n%s%s", r.code, err, r.out, r.err)
			n.restoredMTU(t)
		},
		"work-around": func(t *testing.T) {
			n := withWeb(t)
			tt := onTerminal(t, n.inside(t, "near", args(n, "--for", "2m", "--work-around")...))
			must.Until(t, "the question", func() bool {
				shown := tt.shown.String()
				return strings.Contains(shown, "keep it? [y/N]") || strings.Contains(shown, "all settings are back")
			})
			tt.asked(t, "y\n")
			r := tt.wait(t, patience)
			must.Need(t, r.code == 0 && n.mtu(t, "near") == "9000" && n.mtu(t, "far") == "9000", "exit code %d, MTU %s and %s\n%s", r.code, n.mtu(t, "near"), n.mtu(t, "far"), r.out)
			for _, host := range []string{"near", "far"} {
				routes := ip(t, "-n", n.name(host), "route", "show", "default")
				must.True(t, strings.Contains(routes, "mtu 1500"), "host %s: %s\n%s", host, routes, r.out)
			}
			for _, args := range [][]string{{"undo", n.agent("far")}, {"undo"}} {
				r := run(t, n.inside(t, "near", args...))
				must.True(t, r.code == 0 && strings.Count(r.out, ": back to ") >= 2, "%q: exit code %d\n%s%s", args, r.code, r.out, r.err)
			}
			n.restoredMTU(t)
			routes := ip(t, "-n", n.near, "route", "show", "default")
			must.True(t, !strings.Contains(routes, "mtu"), "the route is left changed: %s", routes)
		},
	})
}

// middle is the namespace between the two hosts of a pair.
type middle struct {
	*netns
	m string // its namespace
}

// Addresses of the middle if it is a router, and of a web server behind it.
const (
	routerNear = "10.77.0.254"
	routerFar  = "10.77.0.253"
	webAddr    = "10.88.0.2"
)

// newMiddle makes a pair of hosts with a namespace between them, whose links take 9000 bytes
// while the hosts have 1500.
func newMiddle(t testing.TB) *middle {
	t.Helper()
	needProgram(t, "ethtool")
	word := strings.ToLower(rand.Text()[:6])
	name := func(s string) string { return fmt.Sprintf("lr%d-%s-%s", os.Getpid(), word, s) }
	n := &middle{netns: &netns{dir: t.TempDir(), near: name("near"), far: name("far")}, m: name("m")}
	for _, ns := range []string{n.near, n.far, n.m} {
		n.addNamespace(t, ns)
	}
	for host, end := range map[string]string{n.near: "va", n.far: "vb"} {
		n.join(t, host, end)
	}
	ip(t, "-n", n.near, "addr", "add", nearAddr+"/24", "dev", "v0")
	ip(t, "-n", n.far, "addr", "add", farAddr+"/24", "dev", "v0")
	return n
}

func (n *middle) addNamespace(t testing.TB, ns string) {
	t.Helper()
	ip(t, "netns", "add", ns)
	t.Cleanup(func() { removeNetns(t, ns) })
	ip(t, "-n", ns, "link", "set", "lo", "up")
}

// join connects v0 of a host to a link of the middle, which takes 9000 bytes. The host sends
// packets as on a wire: larger ones of segmentation offload would pass any link of this kind.
func (n *middle) join(t testing.TB, host, end string) {
	t.Helper()
	ip(t, "link", "add", "v0", "netns", host, "type", "veth", "peer", "name", end, "netns", n.m)
	ip(t, "-n", n.m, "link", "set", end, "mtu", "9000", "up")
	ip(t, "-n", host, "link", "set", "v0", "up")
	ip(t, "netns", "exec", host, "ethtool", "-K", "v0", "tso", "off", "gso", "off")
}

// bridged makes the middle a switch whose ports take mtu bytes.
func bridged(t testing.TB, mtu string) *middle {
	t.Helper()
	n := newMiddle(t)
	ip(t, "-n", n.m, "link", "add", "br0", "type", "bridge")
	for _, port := range []string{"va", "vb"} {
		ip(t, "-n", n.m, "link", "set", port, "mtu", mtu, "master", "br0")
	}
	ip(t, "-n", n.m, "link", "set", "br0", "up")
	return n
}

// routed makes the middle a router whose routes take 1500 bytes, and which reports that.
func routed(t testing.TB) *middle {
	t.Helper()
	n := newMiddle(t)
	for _, e := range []struct{ host, end, own, router, peer string }{
		{n.near, "va", nearAddr, routerNear, farAddr}, {n.far, "vb", farAddr, routerFar, nearAddr},
	} {
		ip(t, "-n", n.m, "addr", "add", e.router+"/32", "dev", e.end)
		ip(t, "-n", n.m, "route", "add", e.own+"/32", "dev", e.end, "mtu", "1500")
		ip(t, "-n", e.host, "route", "add", e.peer+"/32", "via", e.router)
	}
	n.forward(t)
	return n
}

// forward makes the middle forward packets.
func (n *middle) forward(t testing.TB) {
	t.Helper()
	ip(t, "netns", "exec", n.m, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")
}

// restoredMTU requires that both hosts have 1500 again.
func (n *middle) restoredMTU(t testing.TB) {
	t.Helper()
	a, b := n.mtu(t, "near"), n.mtu(t, "far")
	must.True(t, a == "1500" && b == "1500", "MTU %s and %s", a, b)
}

// listenIn listens on port 80 of every address of a namespace. The thread that enters the
// namespace returns from it: it may be the first thread of this process, which would count as
// the whole process.
func listenIn(t testing.TB, ns string) net.Listener {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open := func(path string) *os.File { return must.Get(os.Open(path))(t) }
	home, there := open("/proc/thread-self/ns/net"), open("/run/netns/"+ns)
	defer home.Close()
	defer there.Close()
	must.Do(t, unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":80")
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // nothing in this process may continue in there
	}
	must.Do(t, err)
	return l
}

// withWeb adds a web server behind the middle, which is a switch for the hosts and their
// router. The router forwards 1500 bytes without a report: it has no route for ICMP messages.
func withWeb(t testing.TB) *middle {
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
	for _, host := range []string{n.near, n.far} {
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
