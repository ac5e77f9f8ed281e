package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"linerate/internal/must"
)

// behindNAT puts a router between the hosts of n, with the far host behind it: packets from the
// far host have the router's address, and only answers to its connections get in.
func (n *netns) behindNAT(t testing.TB) (router string) {
	t.Helper()
	needProgram(t, "nft")
	const outside, inner = "203.0.113.", "192.168.9." // RFC 5737, RFC 1918
	r := strings.TrimSuffix(n.near, "near") + "router"
	ip(t, "netns", "add", r)
	t.Cleanup(func() { removeNetns(t, r) })
	ip(t, "-n", n.near, "link", "del", "v0")
	ip(t, "link", "add", "v0", "netns", n.near, "type", "veth", "peer", "name", "a0", "netns", r)
	ip(t, "link", "add", "v0", "netns", n.far, "type", "veth", "peer", "name", "b0", "netns", r)
	for _, l := range []struct{ name, dev, addr string }{{n.near, "v0", outside + "1"}, {r, "a0", outside + "2"}, {r, "b0", inner + "1"}, {n.far, "v0", inner + "2"}} {
		ip(t, "-n", l.name, "addr", "add", l.addr+"/24", "dev", l.dev)
		ip(t, "-n", l.name, "link", "set", l.dev, "up")
	}
	ip(t, "-n", n.far, "route", "add", "default", "via", inner+"1")
	ip(t, "netns", "exec", r, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", r, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(`table ip n {
chain post {
 type nat hook postrouting priority 100;
 oifname "a0" masquerade
}
chain through {
 type filter hook forward priority 0; policy drop;
 ct state established,related accept
 iifname "b0" accept
}
}
`)
	out, err := cmd.CombinedOutput()
	must.Need(t, err == nil, "nft: %v\n%s", err, out)
	return outside + "2"
}

// TestFirstHour05NAT: through a NAT the end behind it opens the connections, for TCP and UDP,
// whichever end that is; the other direction is refused with a hint.
func TestFirstHour05NAT(t *testing.T) {
	n := netnsBeside(t)
	router := n.behindNAT(t)
	agent := func(host, addr string) string {
		return fmt.Sprintf("exec:%s ip netns exec %s %s agent --state %s", addr, n.name(host), binary, n.state(host))
	}
	for name, c := range map[string]struct {
		near, far string // target
		args      []string
		says      string // "" is a test that succeeds
	}{
		"far end behind it":            {"near", agent("far", router), nil, "works here: --connect-from far"},
		"far end behind it, from far":  {"near", agent("far", router), []string{"--connect-from", "far"}, ""},
		"far end behind it, UDP":       {"near", agent("far", router), []string{"--connect-from", "far", "--udp"}, ""},
		"near end behind it":           {"far", agent("near", "203.0.113.1"), nil, ""},
		"near end behind it, UDP":      {"far", agent("near", "203.0.113.1"), []string{"--udp"}, ""},
		"near end behind it, from far": {"far", agent("near", "203.0.113.1"), []string{"--connect-from", "far"}, "works here: --connect-from near"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := n.inside(t, c.near, append([]string{"test", c.far, "-t", "1s", "--omit", "0s", "--idle", "0s"}, c.args...)...)
			cmd.Args = append(cmd.Args, "--db", ":memory:")
			r := run(t, cmd)
			want := map[bool]int{true: 0, false: 3}[c.says == ""]
			must.True(t, r.code == want && strings.Contains(r.err, c.says), "exit code %d, want %d\n%s%s", r.code, want, r.out, r.err)
		})
	}
}

// TestLinkThatGoesDown: if a link is down for a moment, the test's last words say so, at the
// end that saw it; the connection survives. The test lasts until all is sent, however long that
// takes.
func TestLinkThatGoesDown(t *testing.T) {
	n := netnsBeside(t)
	p := start(t, n.inside(t, "near", "test", n.agent("far"), "--to", "-n", "40MB", "--omit", "0s", "--idle", "0s", "--db", ":memory:"))
	must.Until(t, "traffic", func() bool { return sent(t, n.near) > 4e6 || len(p.done) > 0 })
	ip(t, "-n", n.far, "link", "set", "v0", "down")
	ip(t, "-n", n.far, "link", "set", "v0", "up")
	r := p.wait(t, patience)
	must.True(t, r.code == 0 && strings.Contains(words(r.out), "the link was lost once during the test"), "exit code %d:\n%s%s", r.code, r.out, r.err)
}

// TestLinkThatStaysDown: if contact is lost because this machine's own link is down, the error
// says so, beside the network's answer.
func TestLinkThatStaysDown(t *testing.T) {
	n := netnsBeside(t)
	_, join := n.serve(t)
	p := start(t, n.inside(t, "near", "test", join.String(), "--reverse", "-t", "1m", "--omit", "0s", "--idle", "0s", "--db", ":memory:"))
	must.Until(t, "traffic", func() bool { return sent(t, n.far) > 4e6 || len(p.done) > 0 })
	ip(t, "-n", n.far, "link", "set", "v0", "down")
	p.wait(t, patience).ends(t, 3, "contact lost", "meanwhile on this machine: the link was lost once during the test")
}

// sent returns how many bytes the link of a namespace has sent.
func sent(t testing.TB, namespace string) (bytes int) {
	t.Helper()
	lines := strings.Fields(ip(t, "-n", namespace, "-s", "-o", "link", "show", "dev", "v0"))
	for i, word := range lines {
		if word == "TX:" { // bytes packets errors dropped carrier collsns \ numbers
			for _, w := range lines[i:] {
				if _, err := fmt.Sscan(w, &bytes); err == nil && bytes > 0 {
					return bytes
				}
			}
		}
	}
	return 0
}
