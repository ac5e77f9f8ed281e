package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// firewall gives the far host a firewall: its rules are what it accepts besides ssh, which uses
// no network here, and packets of its own connections.
func (n *netns) firewall(t testing.TB, host, rules string) {
	t.Helper()
	needProgram(t, "nft")
	text := "table inet f {\nchain in {\n type filter hook input priority 0; policy accept;\n iif lo accept\n ct state established,related accept\n" + rules + "\n}\n}\n"
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.name(host), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	must.Need(t, err == nil, "nft: %v\n%s", err, out)
}

// quickOverSSH returns a short test.
func quickOverSSH(more ...string) []string {
	return append([]string{"test", "root@far", "-t", "2s", "--omit", "0s", "--to"}, more...)
}

// TestFirewall: only ssh is open at the far host, with several kinds of firewall. The error names
// what is closed before anything is measured, with a hint, and the hint works.
func TestFirewall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		near, far string // rules
		args      []string
		says      []string // "" is a test that succeeds
		not       []string
		then      []string // flags that help
		whole     bool     // with then, data went through ssh
	}{
		"drop": {far: "drop", says: []string{"ssh works, TCP port", "of far is filtered", "--data-port 5299", "--connect-from far"},
			then: []string{"--connect-from", "far"}},
		"reject": {far: "meta l4proto tcp reject with tcp reset\ndrop", says: []string{"is closed or rejected", "--connect-from far"},
			then: []string{"--connect-from", "far", "--idle", "0s"}},
		"data port": {far: "tcp dport 5300-5301 accept\nudp dport 5300-5301 accept\ndrop", says: []string{"--data-port"}, args: []string{"--udp"},
			then: []string{"--data-port", "5300-5301", "--udp"}},
		"UDP filtered": {far: "meta l4proto tcp accept\ndrop", args: []string{"--udp"}, says: []string{"is open, but UDP to far is filtered", "--connect-from far"},
			then: []string{"--udp", "--connect-from", "far"}},
		"only UDP open": {far: "meta l4proto udp accept\ndrop", near: "drop", args: []string{"--udp"}, says: []string{"TCP port", "is filtered", "the other end cannot connect either (TCP)"},
			not: []string{"--through"}},
		"nothing open": {
			far: "drop", near: "drop", says: []string{"the other end cannot connect either", "--through ssh"}, then: []string{"--through", "ssh"}, whole: true,
		},
		"from the far end nothing": {
			near: "drop", args: []string{"--connect-from", "far"}, says: []string{"of this machine is filtered", "--connect-from near"}, then: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := netnsBeside(t)
			s := n.overSSH(t)
			n.install(t)
			n.firewall(t, "near", c.near)
			n.firewall(t, "far", c.far)
			r := run(t, withSSH(n.inside(t, "near", quickOverSSH(c.args...)...), s)).ends(t, 3)
			for _, want := range c.says {
				must.Contain(t, r.err, want, "does not say")
			}
			for _, bad := range append(c.not, "find what disturbs") {
				must.True(t, !strings.Contains(r.err, bad), "says %q:\n%s", bad, r.err)
			}
			must.Fail(t, must.Err(n.trySession(t)), "a session was stored although nothing was measured")
			if c.then == nil {
				return
			}
			r = run(t, withSSH(n.inside(t, "near", quickOverSSH(append(c.then, "--json")...)...), s))
			must.Need(t, r.code == 0, "with %q: exit code %d\n%s%s", c.then, r.code, r.out, r.err)
			var d struct {
				Report struct {
					Header struct {
						DataPath string `json:"data_path"`
					}
				}
			}
			must.Do(t, json.Unmarshal([]byte(r.out), &d))
			got := n.session(t)
			must.True(t, d.Report.Header.DataPath == got.Plan.Path.String() && (len(c.then) <= 0 || got.Plan.Path != (model.DataPath{})), "shown %q, stored %+v", d.Report.Header.DataPath, got.Plan.Path)
			must.True(t, !c.whole || strings.Contains(strings.Join(got.Warnings, "\n"), "the rate is that of ssh"), "warnings %q", got.Warnings)
		})
	}
}

// TestFoundByName: serve --open is found on its network by its host's name, over multicast DNS,
// and remembered; then another key is refused. A server that is not open is announced only on
// request, and gives nothing without its secret.
func TestFoundByName(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	must.SkipIf(t, err != nil || host == "" || strings.Contains(host, "."), "this machine's name is no single word")
	n := newNetns(t)
	config := filepath.Join(n.dir, "config")
	look := func(more ...string) result {
		t.Helper()
		cmd := n.inside(t, "near", append([]string{"test", host, "-t", "0.3s", "--omit", "0s", "--to", "--idle", "0s"}, more...)...)
		cmd.Env = append(cmd.Env, "LINERATE_CONFIG="+config, "LINERATE_MDNS=")
		return run(t, cmd)
	}
	end := func(p *process) {
		t.Helper()
		p.signal(t, syscall.SIGTERM)
		p.wait(t, patience)
	}
	up := func(args ...string) *process {
		t.Helper()
		cmd := n.inside(t, "far", append([]string{"serve", "--state", n.state("far")}, args...)...)
		cmd.Env = append(cmd.Env, "LINERATE_MDNS=")
		p := start(t, cmd)
		must.Until(t, "serve listens", func() bool { return strings.Contains(p.said(), "listening") })
		return p
	}
	p := up("--open", "--host", farAddr)
	must.Contain(t, p.said(), "announced on the local network as "+host, "says")
	for i, says := range []string{"is known from now on by its pin", ""} {
		r := look()
		must.Need(t, r.code == 0 && (says == "" || strings.Contains(r.err, says)) && (says != "" || !strings.Contains(r.err, "known from now on")), "look %d: exit code %d\n%s%s", i, r.code, r.out, r.err)
	}
	end(p)
	b, err := os.ReadFile(filepath.Join(config, "known_servers"))
	first, _, _ := strings.Cut(strings.TrimPrefix(string(b), strings.ToLower(host)+" "), "\n")
	must.Need(t, err == nil && len(first) == 43, "remembered %q, %v", b, err)
	must.Do(t, os.RemoveAll(n.state("far")))
	p = up("--open", "--host", farAddr)       // with another key, as of another server
	look().ends(t, 3, first, "known_servers") // another key
	end(p)
	must.Do(t, os.RemoveAll(config))
	p = up("--open", "--announce=false", "--host", farAddr)
	r := look()
	must.True(t, r.code == 3 && !strings.Contains(p.said(), "announced"), "not announced: exit code %d\n%s%s%s", r.code, r.out, r.err, p.said())
	end(p)
	p = up("--announce", "--host", farAddr)
	look().ends(t, 3, "wants the secret") // announced, and not open
	end(p)
}

// TestFirstHour05Filtered: if only ssh is open at the far host, commands that measure answer
// what is filtered, and what helps. TestTruthOfFilteredHosts requires it of all of them, and
// soon.
func TestFirstHour05Filtered(t *testing.T) {
	n := netnsBeside(t)
	s := n.overSSH(t)
	n.install(t)
	n.firewall(t, "far", "drop")
	for name, args := range map[string][]string{
		"test": {"test", "root@far"},
		"run":  {"run", "root@far", "--factor", "tcp.sack=on,off", "--baseline", "on"},
		"copy": {"copy", "root@far"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sayFiltered(t, run(t, withSSH(n.inside(t, "near", args...), s)))
		})
	}
}

// sayFiltered requires the error for a host with only ssh open.
func sayFiltered(t testing.TB, r result) {
	t.Helper()
	for _, want := range []string{"ssh works, TCP port", "is filtered", "--data-port", "works here: --connect-from far"} {
		must.Need(t, r.code == 3 && strings.Contains(r.err, want), "exit code %d, does not say %q\n%s%s", r.code, want, r.out, r.err)
	}
}

// TestFirstHour15FoundByIPv6: servers are also found and measured on a network without IPv4
// addresses.
func TestFirstHour15FoundByIPv6(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	must.SkipIf(t, err != nil || host == "" || strings.Contains(host, "."), "this machine's name is no single word")
	n := newNetns(t)
	for name, addr := range map[string]string{n.near: nearAddr, n.far: farAddr} {
		ip(t, "-n", name, "addr", "del", addr+"/24", "dev", "v0")
	}
	must.Until(t, "addresses of the link", func() bool { // no duplicate addresses
		return strings.Contains(ip(t, "-n", n.far, "-6", "addr", "show", "dev", "v0", "scope", "link", "-tentative"), "fe80:")
	})
	cmd := n.inside(t, "far", "serve", "--state", n.state("far"), "--open")
	cmd.Env = append(cmd.Env, "LINERATE_MDNS=")
	p := start(t, cmd)
	must.Until(t, "serve listens", func() bool { return strings.Contains(p.said(), "listening") })
	cmd = n.inside(t, "near", "test", host, "-t", "0.3s", "--omit", "0s", "--to", "--idle", "0s")
	cmd.Env = append(cmd.Env, "LINERATE_MDNS=")
	run(t, cmd).ends(t, 0, "is known from now on by its pin", "fe80:")
	p.signal(t, syscall.SIGTERM)
	p.wait(t, patience)
}

// avahi runs Avahi, the mDNS responder of Linux systems, on the near host, with its own bus and
// /run. It ends with the test. The returned function runs Avahi's programs there.
func (n *netns) avahi(t testing.TB) func(ctx context.Context, program string, args ...string) *exec.Cmd {
	t.Helper()
	daemon, bus := referee.Program(t, "avahi-daemon"), referee.Program(t, "dbus-daemon")
	address := "unix:path=" + filepath.Join(n.dir, "bus")
	write := func(name, text string) string {
		file := filepath.Join(n.dir, name)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	busFile := write("dbus.conf", `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>`+address+`</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
`)
	// It is as strict as possible: it drops packets that have crossed a router.
	file := write("avahi.conf", "[server]\nhost-name=avahi-a\nuse-ipv4=yes\nuse-ipv6=yes\nallow-interfaces=v0\ncheck-response-ttl=yes\n[wide-area]\nenable-wide-area=no\n")
	inside := func(ctx context.Context, program string, args ...string) *exec.Cmd {
		c := referee.Command(t, program, args...)
		cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name("near")}, c.Args...)...)
		cmd.Env = append(c.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+address)
		cmd.WaitDelay = patience
		return cmd
	}
	start(t, inside(t.Context(), bus, "--nofork", "--config-file="+busFile))
	must.Until(t, "a bus", func() bool { _, err := os.Stat(filepath.Join(n.dir, "bus")); return err == nil })
	p := start(t, inside(t.Context(), "unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && exec "$@"`, "sh",
		daemon, "--no-drop-root", "--no-chroot", "--no-rlimits", "-f", file))
	defer func() {
		if t.Failed() {
			t.Log(p.complaints())
		}
	}()
	must.Until(t, "avahi-daemon is up", func() bool { return strings.Contains(p.complaints(), "Server startup complete") })
	return inside
}

// TestFirstHour15Avahi: Avahi finds the announcement of serve, over IPv4 and IPv6, with its
// pin; and linerate finds a server that Avahi announces.
func TestFirstHour15Avahi(t *testing.T) {
	n := netnsBeside(t)
	avahi := n.avahi(t)
	browse, publish := referee.Program(t, "avahi-browse"), referee.Program(t, "avahi-publish")
	cmd := n.inside(t, "far", "serve", "--state", n.state("far"), "--open")
	cmd.Env = append(cmd.Env, "LINERATE_MDNS=")
	p := start(t, cmd)
	must.Until(t, "serve listens", func() bool { return strings.Contains(p.said(), "listening") })
	pin := regexp.MustCompile(`linerate://([\w-]{43})`).FindStringSubmatch(p.said())
	must.Need(t, pin != nil, "no link in %s", p.said())
	var said string
	must.Until(t, "Avahi finds it by both protocols", func() bool {
		out, err := avahi(t.Context(), browse, "-r", "-t", "-p", "_linerate._tcp").Output()
		said = fmt.Sprintf("%s%v", out, err)
		return strings.Contains(said, "=;v0;IPv4;") && strings.Contains(said, "=;v0;IPv6;")
	})
	for _, want := range []string{";" + farAddr + ";5299;", ";fe80:", `"pin=` + pin[1] + `"`} {
		must.Contain(t, said, want, "not")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// Avahi announces the near host, so linerate must be there.
	published := start(t, avahi(ctx, publish, "-s", "lr-printed", "_linerate._tcp", "5299", "txtvers=1", "pin="+pin[1]))
	defer func() { stop(); published.wait(t, patience) }()
	look := n.inside(t, "far", "test", "lr-printed", "--json", "-t", "0.3s", "--omit", "0s", "--to", "--idle", "0s", "--timeout", "3s")
	look.Env = append(look.Env, "LINERATE_MDNS=")
	run(t, look).ends(t, 3, nearAddr)
	p.signal(t, syscall.SIGTERM)
	p.wait(t, patience)
}

// TestFarEndsInLabs: blocks alternate over far ends with a setting of each, everything is undone,
// and reports distinguish the ends. TestTruthOfFarEnds checks what each of them carries, and
// resumes with new connections.
func TestFarEndsInLabs(t *testing.T) {
	labBeside(t)
	db := filepath.Join(t.TempDir(), "results.db")
	args := []string{"run", "--factor", "far=lab:rate=50mbit,rtt=1ms,lab:rate=20mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=1MiB,2MiB",
		"--settle", "0s", "--no-twin", "-t", "100ms", "--omit", "100ms", "--blocks", "1", "--db", db, "--json", "-q"}
	s := decode[document](t, succeed(t, args...).out).Session
	must.True(t, len(s.Plan.Ends) == 1 && len(s.Changes) == len(s.Runs) && len(s.Runs) >= 4, "%d ends, %d changes of %d runs", len(s.Plan.Ends), len(s.Changes), len(s.Runs))
	for _, c := range s.Changes {
		must.Equal(t, c.State, model.ChangeUndone, "%+v", c)
	}
	for format, want := range map[string]string{"html": "Every far end with every", "markdown": "far end"} {
		file := filepath.Join(t.TempDir(), "report")
		succeed(t, "report", "last", "--format", format, "-o", file, "--db", db)
		text, err := os.ReadFile(file)
		must.True(t, err == nil && strings.Contains(string(text), want), "%s: %q is not in %d bytes, %v", format, want, len(text), err)
	}
}

// TestFarEndsChangeOneNearHost: the near end of several far ends is one host, changed through one
// session; its settings for each run are undone after it.
func TestFarEndsChangeOneNearHost(t *testing.T) {
	t.Parallel()
	r := run(t, pairInLab(t, "rate=50mbit,rtt=2ms", `cut -f3 /proc/sys/net/ipv4/tcp_wmem
$LR run --from "$near" --factor "far=$far,${far}2" --factor near.tcp.send_buffer_max=1MiB,2MiB --blocks 3 -t 200ms --omit 100ms --settle 0s --no-twin --db $DIR/r.db -q
cut -f3 /proc/sys/net/ipv4/tcp_wmem
`))
	must.True(t, r.code == 0 && strings.Contains(r.out, " changes on 10.99.0.1, all undone, verified") && strings.Count(r.out, "4194304") == 2 && !strings.Contains(r.out, "10.99.0.2, 10.99.0.2"), "exit code %d\n%s%s", r.code, r.out, r.err)
}

// TestSweepsOfFarEnds: sweeps of two far hosts with two settings each are four sessions, whose
// settings are undone, and one picture.
func TestSweepsOfFarEnds(t *testing.T) {
	t.Parallel()
	r := run(t, pairInLab(t, "rate=50mbit,rtt=2ms", `
$LR sweep --from "$near" --factor "far=$far,${far}2" --set small:link.mtu=1400 --set as-is --max 64 -t 200ms --db $DIR/r.db -q --json > $DIR/list || exit 9
ids=$(grep -o '"id": *"[^"]*"' $DIR/list | cut -d'"' -f4 | paste -sd,)
$LR report "${ids%%,*}" --beside "${ids#*,}" --db $DIR/r.db -o $DIR/page.html && grep -o "small [^<]*, to 10.99.0.2\|4 sweeps in one picture" $DIR/page.html
$LR show "${ids##*,}" --db $DIR/r.db
`))
	must.True(t, r.code == 0 && strings.Contains(r.out, "4 sweeps in one picture") && strings.Contains(r.out, "small ") && strings.Contains(r.out, "all undone, verified"), "exit code %d\n%s%s", r.code, r.out, r.err)
}

// acrossArgs compares two far ends in short runs, in this many blocks.
func acrossArgs(blocks, one, two string, more ...string) []string {
	return append([]string{
		"run", "--factor", "far=" + one + "," + two, "--settle", "0s", "--no-twin", "-n", "256KiB", "--omit", "0s", "--cooldown", "200ms",
		"--objective", "goodput", "--blocks", blocks, "--json", "-q",
	}, more...)
}

// farCounts returns the valid runs of each far end, by name, and how many runs were lost: those
// of the order, and those at equal load, which follow the runs of their block.
func farCounts(s model.Session) (valid map[string]int, lost, atEqualLoad int) {
	valid = map[string]int{}
	for _, r := range s.Runs {
		setting, _ := s.Plan.Setting(r.Setting)
		switch {
		case r.State == model.RunValid:
			valid[setting.FarEnd()]++
		case r.LostContact && r.Position > len(s.Plan.Settings):
			atEqualLoad++
		case r.LostContact:
			lost++
		}
	}
	return valid, lost, atEqualLoad
}

// wentOn requires that a session lost its second far end midway, after three attempts at a run
// with it, and ended with what could still be decided. The end may also have died in a run at
// equal load, which a block has if the end was faster but slower to answer than the other.
func wentOn(t testing.TB, r result) {
	t.Helper()
	r.succeeds(t)
	s := decode[document](t, r.out).Session
	valid, lost, atEqualLoad := farCounts(s)
	ends := s.Plan.FarEnds()
	warned, _ := json.Marshal(s.Warnings)
	for _, r := range s.Runs {
		setting, _ := s.Plan.Setting(r.Setting)
		must.True(t, setting.FarEnd() != ends[0] || !r.LostContact, "run %d with %s, which lives, is %s: %s", r.Number, ends[0], r.State, r.Reason)
	}
	must.True(t, s.State == model.SessionDone && valid[ends[1]] != 0 && valid[ends[0]] >= valid[ends[1]] && valid[ends[1]] <= 11 && strings.Contains(string(warned), ends[1]+" is out of reach and was left out"), "%s (%s): %v, %s", s.State, s.Reason, valid, warned)
	must.True(t, lost == 3 && atEqualLoad <= 1, "%d runs lost, and %d at equal load", lost, atEqualLoad)
}

// TestFarEndsServed compares two servers, each with its own key; then one of them is killed
// midway, and the session goes on with the other.
func TestFarEndsServed(t *testing.T) {
	n := netnsBeside(t)
	one, first := n.serve(t)
	two, second := n.serve(t, "--listen", farAddr+":5300", "--state", n.state("far")+"2")
	must.Need(t, first.Secret != second.Secret && first.Pin != second.Pin, "both servers have one key")
	r := run(t, n.inside(t, "near", acrossArgs("6", first.String(), second.String())...)).succeeds(t)
	s := decode[document](t, r.out).Session
	valid, lost, atEqualLoad := farCounts(s)
	ends := s.Plan.FarEnds()
	secret := strings.Contains(r.out, first.Secret) || strings.Contains(r.out, second.Secret)
	must.True(t, len(ends) == 2 && valid[ends[0]] >= 6 && valid[ends[1]] >= 6 && lost+atEqualLoad == 0 && !secret && strings.HasSuffix(ends[1], ":5300"), "%v, %d lost, a secret is shown: %v", valid, lost, secret)
	p := start(t, n.inside(t, "near", acrossArgs("12", first.String(), second.String(), "--db", filepath.Join(n.dir, "dies.db"))...))
	must.Until(t, "a run with the second one", func() bool {
		return strings.Contains(run(t, n.inside(t, "near", "show", "last", "--json", "--db", filepath.Join(n.dir, "dies.db"))).out, `"number": 4`)
	})
	two.signal(t, syscall.SIGKILL)
	wentOn(t, p.wait(t, patience))
	one.signal(t, os.Interrupt)
}

// TestFarEndsRefused: what several far ends cannot do is refused in one sentence, with a hint.
func TestFarEndsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args        []string
		says, hints string
	}{
		{[]string{"run", "--factor", "far=iperf3://127.0.0.1,iperf3://127.0.0.2"}, "iperf3://127.0.0.1: several far ends are compared where linerate runs on each", "start linerate serve there, or compare over ssh: user@host"},
		{[]string{"run", "--factor", "far=lab:lan,lab:wan", "--factor", "link.mtu=1500,1400", "--group", "link.mtu"}, "several far ends are a factor, whose hosts take turns", "leave the group out, or measure each far end in a session of its own"},
	} {
		r := run(t, command(t, c.args...))
		must.True(t, r.code == 2 && strings.Contains(r.err, c.says) && strings.Contains(strings.ReplaceAll(r.err, "\n", " "), c.hints) && strings.Count(r.err, "linerate:") == 1, "%q: exit code %d\n%s, want %q with %q", c.args, r.code, r.err, c.says, c.hints)
	}
}
