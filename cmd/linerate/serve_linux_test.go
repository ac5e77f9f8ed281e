package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// serverAddr is the address of the tests' servers.
const serverAddr = farAddr + ":5299"

// serve starts linerate serve in the far host and returns it with its join link.
func (n *netns) serve(t testing.TB, args ...string) (*process, tls.Link) {
	t.Helper()
	p := start(t, n.inside(t, "far", append([]string{"serve", "--listen", serverAddr, "--state", n.state("far")}, args...)...))
	link := regexp.MustCompile(`linerate://[^\s']+`)
	must.Until(t, "a join link", func() bool { return link.MatchString(p.said()) })
	return p, joinLink(t, link.FindString(p.said()))
}

// joinLink parses a join link that the server printed, and keeps the first of its addresses.
func joinLink(t testing.TB, link string) tls.Link {
	t.Helper()
	l := must.Get(tls.ParseLink(link))(t)
	must.Need(t, !strings.ContainsAny(link, "&? $()<>|;*!"), "link %q:", link)
	l.Addr = l.Addrs()[0]
	return l
}

// changed returns l after change.
func changed(l tls.Link, change func(l *tls.Link)) string {
	change(&l)
	return l.String()
}

// role starts this test binary in a host in another role.
func (n *netns) role(t testing.TB, host, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.name(host), os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	return cmd
}

// look runs a short test from the near host.
func (n *netns) look(t testing.TB, link string, more ...string) result {
	t.Helper()
	return run(t, n.inside(t, "near", append([]string{"test", link, "-t", "0.4s", "-i", "0.2s", "--omit", "0s", "--idle", "0s", "-q"}, more...)...))
}

// sane requires that a test measured both directions of a veth pair.
func sane(t testing.TB, r result) {
	t.Helper()
	r.succeeds(t)
	must.Equal(t, bothWays(decode[document](t, r.out)), "")
}

// bothWays requires goodput in both directions, in a range possible for a veth pair or loopback.
func bothWays(d document) (wrong string) {
	if d.Schema != "linerate/session/v1" || d.Session.State != "done" {
		return fmt.Sprintf("document %s, session %s", d.Schema, d.Session.State)
	}
	for _, direction := range []model.Direction{model.To, model.From} {
		if g := d.goodput(direction); len(g) == 0 || g[0] <= 0 || g[0] > 1e12 {
			return fmt.Sprintf("goodput %s: %v", direction, g)
		}
	}
	return ""
}

// TestServe uses a server as its friends do, then as anonymous clients do, then ends it.
func TestServe(t *testing.T) {
	n := netnsBeside(t)
	server, link := n.serve(t)
	good := link.String()

	sane(t, n.look(t, good, "--json"))

	r := run(t, n.inside(t, "near", "run", good, "--factor", "window=16KiB,256KiB", "--baseline", "16KiB", "--blocks", "3",
		"-t", "0.2s", "-i", "0.2s", "--omit", "0s", "--settle", "0s", "--no-twin", "--json", "-q"))
	r.succeeds(t) // run with a window
	d := decode[document](t, r.out)
	must.True(t, len(d.Session.Runs) >= 6 && len(d.Session.Verdicts) != 0 && len(d.Session.Changes) == 0, "%d runs, verdicts %+v, changes %v", len(d.Session.Runs), d.Session.Verdicts, d.Session.Changes)

	r = run(t, n.inside(t, "near", "run", good, "--factor", "far.tcp.sack=off", "--blocks", "3", "--no-twin", "-t", "0.2s", "-i", "0.2s", "--omit", "0s"))
	must.True(t, r.code == 4 && strings.Contains(r.err, "tcp.sack cannot be set on 10.77.0.2: the key default has the right to measure") && strings.Contains(r.err, "serve --allow-tune"), "a knob of a server: exit code %d\n%s%s", r.code, r.out, r.err)

	out, err := n.role(t, "near", "scan "+serverAddr).CombinedOutput()
	must.Need(t, err == nil, "scan: %v\n%s", err, out)
	sane(t, n.look(t, good, "--json"))

	// A server that ends reports that to its sessions.
	p := start(t, n.inside(t, "near", "test", good, "--to", "-t", "1m"))
	enough := n.received(t) + 10e6
	must.Until(t, "traffic", func() bool { return n.received(t) > enough })
	server.signal(t, syscall.SIGTERM)
	server.wait(t, patience).ends(t, 0)
	p.wait(t, patience).ends(t, 3, farAddr) // a session whose server ended
	n.restored(t)
	must.Len(t, must.Get(filepath.Glob(filepath.Join(n.state("far"), "journal*")))(t), 0, "the server wrote a journal")
}

// TestServeRefuses requires a clear error for every way not to get in.
func TestServeRefuses(t *testing.T) {
	n := netnsBeside(t)
	_, link := n.serve(t)
	flip := func(s string) string { // another text of the same form
		if s[0] == 'A' {
			return "B" + s[1:]
		}
		return "A" + s[1:]
	}
	elsewhere := func(port string) string { return strings.Replace(link.String(), ":5299", ":"+port, 1) }
	for port, manner := range map[string]string{"6001": "banner", "6002": "hang up", "6003": "silent"} {
		p := start(t, n.role(t, "far", manner+" "+farAddr+":"+port))
		must.Until(t, manner, func() bool { return p.said() != "" })
	}
	cases := map[string]func(*testing.T){}
	for name, c := range map[string]struct {
		link string
		code int
		says string
	}{
		"wrong pin":         {changed(link, func(l *tls.Link) { l.Pin = flip(l.Pin) }), 3, "this is not the server of the link"},
		"no pin":            {serverAddr, 3, "use the whole link that linerate serve prints there"},
		"wrong secret":      {changed(link, func(l *tls.Link) { l.Secret = flip(l.Secret) }), 3, "the secret is wrong"},
		"no secret":         {changed(link, func(l *tls.Link) { l.Secret = "" }), 3, "wants the secret of its join link"},
		"nobody there":      {elsewhere("6000"), 3, "connection refused\n  is linerate serve running there?"},
		"another server":    {elsewhere("6001"), 3, "what answers there is not linerate"},
		"one that hangs up": {elsewhere("6002"), 3, "what answers there hung up"},
		"a silent server":   {elsewhere("6003"), 3, "no answer in time"},
	} {
		cases[name] = func(t *testing.T) {
			r := n.look(t, c.link)
			must.True(t, r.code == c.code && strings.Contains(r.err, c.says), "exit code %d, want %d and %q\n%s%s", r.code, c.code, c.says, r.out, r.err)
			must.True(t, !strings.Contains(r.out+r.err, link.Secret), "the secret is in the message:\n%s%s", r.out, r.err)
		}
	}
	beside(t, cases)
}

// TestServeOpen lets any client measure, with limits.
func TestServeOpen(t *testing.T) {
	n := netnsBeside(t)
	server, link := n.serve(t, "--open")
	must.Equal(t, link.Secret, "", "the link of an open server has a secret: %s", link)
	sane(t, n.look(t, link.String(), "--json"))
	r := run(t, n.inside(t, "near", "test", link.String(), "-t", "61s", "--omit", "0s"))
	must.True(t, r.code == 3 && strings.Contains(r.err, "this agent allows 1m0s; that is fixed for clients without a key: with one, of linerate serve key add"), "61 s: exit code %d\n%s%s", r.code, r.out, r.err)
	r = run(t, n.inside(t, "near", "test", link.String(), "-t", "1s", "--omit", "0s", "-P", "17"))
	must.True(t, r.code == 3 && strings.Contains(r.err, "17 streams, this agent allows 16"), "17 streams: exit code %d\n%s%s", r.code, r.out, r.err)
	server.signal(t, os.Interrupt)
	server.wait(t, patience).ends(t, 0)
}

// far returns what a report says about its far host.
func far(t testing.TB, r result) (model.HostFacts, string) {
	t.Helper()
	r.succeeds(t)
	d := decode[struct {
		Session struct {
			Hosts []json.RawMessage `json:"hosts"`
		} `json:"session"`
	}](t, r.out)
	must.Need(t, len(d.Session.Hosts) == 2, "%d hosts\n%s", len(d.Session.Hosts), r.out)
	return decode[model.HostFacts](t, string(d.Session.Hosts[1])), string(d.Session.Hosts[1])
}

// TestServeSeesEachSession: two clients use one server on different links, one after the other
// and back: each learns about its own path, and on an open server about nothing else.
func TestServeSeesEachSession(t *testing.T) {
	t.Parallel()
	const otherAddr, otherServer = "10.78.0.1", "10.78.0.2"
	n := newNetns(t)
	other := n.near + "c"
	ip(t, "netns", "add", other)
	t.Cleanup(func() { removeNetns(t, other) })
	ip(t, "link", "add", "w0", "mtu", "1400", "netns", other, "type", "veth", "peer", "name", "w0", "netns", n.far)
	for name, addr := range map[string]string{other: otherAddr, n.far: otherServer} {
		ip(t, "-n", name, "addr", "add", addr+"/24", "dev", "w0")
		ip(t, "-n", name, "link", "set", "lo", "up")
		ip(t, "-n", name, "link", "set", "w0", "mtu", "1400", "up")
	}
	macs := regexp.MustCompile(`link/ether ([0-9a-f:]{17})`).FindAllStringSubmatch(ip(t, "-n", n.far, "link"), -1)
	name := must.Get(os.Hostname())(t)
	must.Need(t, len(macs) >= 2, "%v", macs)
	there := &netns{dir: t.TempDir(), near: other, far: n.far}
	for _, open := range []bool{false, true} {
		args := []string{"serve", "--listen", ":5299", "--host", farAddr, "--state", n.state("far")}
		if open {
			args = append(args, "--open")
		}
		p := start(t, n.inside(t, "far", args...))
		must.Until(t, "a join link", func() bool { return strings.Contains(p.said(), "linerate://") })
		link := regexp.MustCompile(`linerate://[^\s']+`).FindString(p.said())
		for range 2 {
			for _, c := range []struct {
				from       *netns
				addr, face string
				mtu        int
				elsewhere  string
			}{{n, farAddr, "v0", 1500, otherServer}, {there, otherServer, "w0", 1400, farAddr}} {
				f, text := far(t, c.from.look(t, strings.Replace(link, farAddr, c.addr, 1), "--json=full"))
				must.True(t, f.Address == c.addr && f.MTU.Or(0) == c.mtu && (open || f.Interface.Or("") == c.face), "at %s: address %s, MTU %v, interface %v", c.addr, f.Address, f.MTU, f.Interface)
				if !open {
					continue
				}
				for _, secret := range append([]string{c.elsewhere, name, "v0", "w0", "/sys", "/proc"}, macs[0][1], macs[1][1]) {
					must.True(t, !strings.Contains(text, `"`+secret), "an anonymous client gets %q: %s", secret, text)
				}
			}
		}
		p.signal(t, syscall.SIGTERM)
		p.wait(t, patience)
	}
}

// serveWithFiles is serve on the far host, with its own system files in etc.
func (n *netns) serveWithFiles(t testing.TB, etc string, args ...string) (*process, tls.Link) {
	t.Helper()
	cmd := n.inside(t, "far", append([]string{"serve", "--listen", serverAddr, "--state", n.state("far")}, args...)...)
	// ip netns exec has given it its own mount namespace.
	i := slices.Index(cmd.Args, binary)
	cmd.Args = slices.Insert(cmd.Args, i, "sh", "-ec", ownEtc(etc)+`exec "$@"`, "sh")
	p := start(t, cmd)
	link := regexp.MustCompile(`linerate://[^\s']+`)
	must.Until(t, "a join link", func() bool { return link.MatchString(p.said()) })
	return p, joinLink(t, link.FindString(p.said()))
}

// TestKeepOverServer keeps what proved better on the host of a server that may tune: by a key
// with that right, into the files of that host and its list of kept ones, with lines in the
// audit log; and undoes it. A key that may only measure is refused.
func TestKeepOverServer(t *testing.T) {
	n := netnsBeside(t)
	etc, log := filepath.Join(n.dir, "etc"), filepath.Join(n.dir, "audit.log")
	olderFile(t, etc)
	keepSession(t, n.db(), "20261121T130000-beef", model.Better)
	server, first := n.serveWithFiles(t, etc, "--allow-tune", "--audit", log)
	_, ops := n.addKey(t, "ops", "--right", "tune")
	do := func(code int, args ...string) result {
		t.Helper()
		return run(t, n.inside(t, "near", args...)).exits(t, code)
	}
	r := do(4, "keep", "20261121T130000-beef", first.String(), "--yes")
	has(t, "a key that may measure", r.err, "nothing can be kept on 10.77.0.2: the key default has the right to measure, not to change settings of this host")
	isOlder(t, etc)
	r = do(3, "undo", "--kept", first.String())
	has(t, "its undo", r.err, "the right to measure")

	r = do(0, "keep", "20261121T130000-beef", ops, "--yes")
	has(t, "keep", r.out, "kept on ", "/etc/"+kept)
	has(t, "the file", file(t, etc, kept), "evidence: session 20261121T130000-beef, setting \"tall\"", "net.ipv4.tcp_sack = 0\n", " 4194304\n")
	n.asBefore(t) // no running value has changed
	r = do(0, "keep", "--list", ops, "--json")
	must.OK(t, validate("linerate/kept/v1", r.out))
	has(t, "the list", r.out, "session 20261121T130000-beef", "/etc/"+kept)
	there := must.Get(filepath.Glob(filepath.Join(n.state("far"), "kept", "*")))(t)
	must.True(t, len(there) != 0, "the server's list of kept files: %v", there)
	here, _ := filepath.Glob(filepath.Join(n.dir, "kept", "*"))
	must.True(t, len(here) == 0, "kept on the controller's own host: %v", here)
	do(0, "undo", "--kept", ops)
	isOlder(t, etc)
	server.signal(t, syscall.SIGTERM)
	server.wait(t, patience).ends(t, 0)
	lines := audited(t, log)
	for _, want := range []string{
		"event=keep protocol=linerate key=ops address=10.77.0.1 place=/etc/" + kept + " outcome=ok",
		"event=restore protocol=linerate key=ops address=10.77.0.1 place=/etc/" + kept + " outcome=ok",
	} {
		must.True(t, tells(lines, want), "the audit log has no %s", want)
	}
	must.True(t, !tells(lines, "event=keep key=default"), "a refused attempt is written down as one that was kept")
}
