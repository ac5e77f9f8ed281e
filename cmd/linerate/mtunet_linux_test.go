package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
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
func newMiddle(t testing.TB) *middle {
	t.Helper()
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("needs ethtool")
	}
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

// join joins v0 of a host to a link of the middle, which takes 9000 bytes. What
// the host sends are packets as they are on a wire: larger ones of segmentation
// offload would pass any link of this kind.
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

// routed makes the middle a router whose routes take 1500 bytes, and which says so.
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

// forward has the middle forward packets.
func (n *middle) forward(t testing.TB) {
	t.Helper()
	ip(t, "netns", "exec", n.m, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $f; done")
}

// restoredMTU demands that both hosts hold 1500 again.
func (n *middle) restoredMTU(t testing.TB) {
	t.Helper()
	a, b := n.mtu(t, "near"), n.mtu(t, "far")
	must.True(t, a == "1500" && b == "1500", "MTU %s and %s", a, b)
}

// listenIn listens on port 80 of every address of a namespace. The thread that
// enters it comes back: it may be the first one of this process, by which the
// process would count as one of that namespace.
func listenIn(t testing.TB, ns string) net.Listener {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open := func(path string) *os.File {
		return must.Get(os.Open(path))(t)
	}
	home, there := open("/proc/thread-self/ns/net"), open("/run/netns/"+ns)
	defer home.Close()
	defer there.Close()
	must.Do(t, unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":80")
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		panic(back) // nothing in this process may go on in there
	}
	must.Do(t, err)
	return l
}

// withWeb adds a web server beyond the middle, which is a switch for the hosts and
// their router. It forwards 1500 bytes and tells nobody: messages of ICMP have no
// way out of it.
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
