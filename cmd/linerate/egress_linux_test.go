package main

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// nft loads rules into a host's chain for incoming packets.
func (n *netns) nft(t testing.TB, host string, rules ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.name(host), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader("flush ruleset\ntable inet t {\nchain c {\ntype filter hook input priority 0;\n" + strings.Join(rules, "\n") + "\n}\n}\n")
	out, err := cmd.CombinedOutput()
	must.OK(t, err, string(out))
}

var nftCount = regexp.MustCompile(`counter packets \d+ bytes (\d+)(?: accept)? comment "(\w+)"`)

// counted returns the bytes counted by nft in a host.
func (n *netns) counted(t testing.TB, host string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, m := range nftCount.FindAllStringSubmatch(ip(t, "netns", "exec", n.name(host), "nft", "list", "ruleset"), -1) {
		all[m[2]] = must.Get(strconv.Atoi(m[1]))(t)
	}
	return all
}

// TestEgress: a host with two addresses and two interfaces sends from the requested one, marked,
// and so do the clients of foreign programs, as the packets at the other host show.
func TestEgress(t *testing.T) {
	t.Parallel()
	needProgram(t, "nft")
	const (
		second = "10.77.0.11"
		noise  = 4096 // bytes that open a path: greetings over UDP, and ICMP
		// The kernel's own answers, unmarked: to packets after their socket was closed.
		late, reset = `icmp type destination-unreachable accept`, `tcp flags & rst != 0 accept`
	)
	brief := []string{"-t", "500ms", "--omit", "0s", "--idle", "0s"}
	from := []string{"-B", second, "--cport", "20000", "-S", "ef"}
	for _, c := range []struct {
		name   string
		args   []string // its own far end, without a server
		egress []string
		server string // listening in the far host
		device string
		back   bool // the traffic back is marked too
	}{
		{"TCP", append([]string{"test"}, brief...), from, "", "v0", true},
		{"UDP", append([]string{"test", "--udp", "-b", "5M"}, brief...), from, "", "v0", true},
		{"UDP, far connects", append([]string{"test", "--udp", "-b", "5M", "--connect-from", "far"}, brief...), []string{"-B", second, "-S", "46"}, "", "v0", true},
		{"requests", append([]string{"test", "--requests", "500", "--length", "1KiB"}, brief...), from, "", "v0", true},
		{"fresh connections", append([]string{"test", "--requests", "200", "--connect", "--length", "1KiB"}, brief...), []string{"-B", second, "-S", "0x2e"}, "", "v0", true},
		{"copy", []string{"copy", "--size", "1MiB", "--blocks", "1"}, from, "", "v0", true},
		{"message sizes", []string{"sweep", "--max", "64", "-t", "100ms"}, from, "", "v0", true},
		{"device", append([]string{"test"}, brief...), []string{"--bind-dev", "v1", "-S", "ef"}, "", "v1", true},
		{"device, UDP", append([]string{"test", "--udp", "-b", "5M"}, brief...), []string{"-B", "10.77.1.1%v1", "-S", "ef"}, "", "v1", true},
		{"check", []string{"check", "--quick"}, []string{"-B", second, "-S", "ef"}, "", "v0", true},
		{"check, device", []string{"check", "--quick"}, []string{"--bind-dev", "v1", "-S", "ef"}, "", "v1", true},
		{"search", []string{"tune", "--dry-run", "-t", "1s", "--omit", "0s"}, from, "", "v0", true},
		{"iperf3", append([]string{"test", "iperf3://" + farAddr, "--to"}, brief...), from, "iperf3 -s", "v0", false},
		{"iperf3 UDP", append([]string{"test", "iperf3://" + farAddr, "--to", "--udp", "-b", "5M"}, brief...), from, "iperf3 -s", "v0", false},
		{"iperf2", append([]string{"test", "iperf2://" + farAddr, "--reverse"}, brief...), from, "iperf -s", "v0", true},
		{"iperf2 UDP", append([]string{"test", "iperf2://" + farAddr, "--to", "--udp", "-b", "5M"}, brief...), from, "iperf -s -u", "v0", false},
		{"NPtcp", []string{"sweep", "netpipe://" + farAddr, "--min", "512", "--max", "512"}, from, "NPtcp -l 512 -u 512", "v0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := netnsBeside(t)
			ip(t, "-n", n.near, "addr", "add", second+"/24", "dev", "v0")
			ip(t, "link", "add", "v1", "netns", n.near, "type", "veth", "peer", "name", "v1", "netns", n.far)
			ip(t, "-n", n.near, "addr", "add", "10.77.1.1/24", "dev", "v1")
			ip(t, "-n", n.far, "addr", "add", "10.77.1.2/24", "dev", "v1")
			for _, host := range []string{n.near, n.far} {
				ip(t, "-n", host, "link", "set", "v1", "up")
			}
			ip(t, "-n", n.near, "route", "add", "10.77.0.0/24", "dev", "v1", "metric", "100")
			n.limit(t, "v1")
			address := map[string]string{"v0": second, "v1": "10.77.1.1"}[c.device]
			ports := ""
			if len(c.egress) > 4 {
				ports = "tcp sport 20000-24095 "
			}
			n.nft(t, "far", fmt.Sprintf("ip saddr %s ip dscp ef iifname %s %scounter accept comment \"%s\"", address, c.device, ports, "asked"),
				fmt.Sprintf("ip saddr %s ip dscp ef iifname %s udp sport 1-65535 counter accept comment \"%s\"", address, c.device, "datagrams"),
				late, reset, `ip saddr 10.77.0.0/16 counter comment "else"`)
			n.nft(t, "near", `ip dscp ef counter accept comment "asked"`, late, reset, `ip saddr 10.77.0.0/16 counter comment "else"`)
			if c.server != "" {
				argv := strings.Fields(c.server)
				needProgram(t, argv[0])
				server := exec.CommandContext(t.Context(), "ip", append([]string{"netns", "exec", n.far}, argv...)...)
				server.Dir = t.TempDir()
				must.Do(t, server.Start())
				t.Cleanup(func() { _ = server.Wait() }) // it is killed with its namespace
				must.Until(t, argv[0]+" listens", func() bool {
					return strings.Count(ip(t, "netns", "exec", n.far, "cat", "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"), "\n") > 4
				})
			} else {
				c.args = append(c.args, n.agent("far"))
			}
			r := run(t, n.inside(t, "near", append(append(c.args, c.egress...), "--json", "-q")...))
			must.True(t, r.code == 0 || r.code == 8 && c.args[0] == "check", "exit code %d, %s%s", r.code, r.out, r.err)
			if c.name == "search" { // whose document has no session
				r = run(t, n.inside(t, "near", "report", "last", "--format", "json"))
			}
			path := decode[struct {
				Session struct {
					Plan struct {
						Path model.DataPath `json:"path"`
					} `json:"plan"`
				} `json:"session"`
			}](t, r.out).Session.Plan.Path
			must.Equal(t, decode[document](t, r.out).Session.Hosts[0].Interface.Or(""), c.device, "interface of the near end")
			must.Equal(t, path.DSCP, 46, "DSCP in the document, %+v", path)
			there, back := n.counted(t, "far"), n.counted(t, "near")
			must.True(t, there["asked"]+there["datagrams"] >= 2*noise && there["else"] <= noise, "to the far host: %v bytes", there)
			must.True(t, !c.back || back["asked"] != 0 && back["else"] <= noise, "back: %v bytes", back)
		})
	}
}

// TestServerObeysMarks: what serve sends to clients of iperf 2 and iperf3 has the mark that they
// ask for. Over UDP iperf 2 sends only to hosts that came over TCP before.
func TestServerObeysMarks(t *testing.T) {
	t.Parallel()
	needProgram(t, "nft")
	n := newNetns(t)
	serveJSON(t, n.inside(t, "far", "serve", "--json", "--listen", farAddr+":0", "--iperf3="+farAddr+":5201", "--iperf2="+farAddr+":5001", "--state", n.state("far")))
	for _, client := range []string{"iperf -R", "iperf -u -R", "iperf -u --full-duplex", "iperf3 -R", "iperf3 -u -R", "iperf3 -u --bidir"} {
		n.nft(t, "near", `ip dscp ef udp length > 500 counter accept comment "datagrams"`, `ip dscp ef counter accept comment "segments"`, `udp length > 500 counter comment "unmarked"`)
		argv := append([]string{"ip", "netns", "exec", n.near}, strings.Fields(client+" -b 5m -S 184 -n 200K -c "+farAddr)...)
		foreignClient(t, unchecked, argv...)
		kind := map[bool]string{true: "datagrams", false: "segments"}[strings.Contains(client, "-u")]
		got := n.counted(t, "near")
		must.True(t, got[kind] >= 100e3 && got["unmarked"] == 0, "%s: %v bytes came back", client, got)
	}
}

// TestEgressRefused: an address that this machine lacks, or an option that the kind of traffic
// lacks, is refused before anything is measured.
func TestEgressRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"test iperf3://127.0.0.1 -B 192.0.2.7", "this machine has no address 192.0.2.7\n  it has "},
		{"test iperf3://127.0.0.1 --bind-dev nosuch0", "this machine has no interface nosuch0\n  it has "},
		{"test iperf3://127.0.0.1 -B nas", `"nas" is not an address of this host`},
		{"test iperf3://127.0.0.1 -B fe80::1", "is on every interface: name one, as fe80::1%eth0"},
		{"test iperf3://127.0.0.1 -S 184", "as a whole TOS byte it is DSCP 46"},
		{"test iperf3://127.0.0.1 -S gold", "write 0 to 63, or a name such as ef"},
		{"test lab:rate=10mbit -B 10.0.0.2", "a host of a lab has one address and one interface"},
		{"test nas --requests 10 --connect --cport 6000", "leave out --cport or --connect"},
		{"test nas --connect-from far --cport 6000-6010", "--data-port 6000-6010"},
		{"test root@nas --through ssh -S ef", "the packets are those of ssh"},
	} {
		run(t, command(t, strings.Fields(c.args)...)).ends(t, 2, c.says)
	}
}

// TestServeFindsAPort: a server that may use any port gets one that is free for TCP and UDP, even
// if most ports that are free for TCP are not free for UDP.
func TestServeFindsAPort(t *testing.T) {
	n := netnsBeside(t)
	ip(t, "netns", "exec", n.far, "sysctl", "-qw", "net.ipv4.ip_local_port_range=40000 40007")
	must.Do(t, inNetns(n.far, func() error {
		for port := 40001; port <= 40007; port++ {
			taken, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", fmt.Sprintf("%s:%d", farAddr, port))
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = taken.Close() })
		}
		return nil
	}))
	p := start(t, n.inside(t, "far", "serve", "--open", "--listen", farAddr+":0", "--announce=false", "--state", filepath.Join(n.dir, "serve")))
	must.Until(t, "the server", func() bool { return len(p.done) > 0 || strings.Contains(p.said(), "measure from") })
	must.Contain(t, p.said(), "listening on "+farAddr+":40000")
}

// TestBindAtAServer: a server accepts data sent from another address than the route's.
func TestBindAtAServer(t *testing.T) {
	n := netnsBeside(t)
	ip(t, "-n", n.near, "addr", "add", "10.77.0.11/24", "dev", "v0")
	p := start(t, n.inside(t, "far", "serve", "--open", "--listen", farAddr+":5299", "--announce=false", "--state", filepath.Join(n.dir, "serve")))
	must.Until(t, "the server", func() bool { return strings.Contains(p.said(), "listening on") })
	for _, more := range [][]string{nil, {"--udp", "-b", "5M"}, {"--connect-from", "far"}} {
		args := append([]string{"test", farAddr, "--bind", "10.77.0.11", "-t", "1s", "--omit", "0s", "--idle", "0s"}, more...)
		run(t, n.inside(t, "near", args...)).succeeds(t).prints(t, "bit/s")
	}
}

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
