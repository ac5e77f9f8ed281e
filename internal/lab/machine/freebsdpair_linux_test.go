//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// peeked is a variable as FreeBSD's program peek reports it, by its own system calls.
type peeked struct {
	Number *int64
	Text   string
	Error  string
}

func number(ctx context.Context, t *testing.T, m *Machine, name string) int64 {
	t.Helper()
	var all map[string]peeked
	must.Do(t, json.Unmarshal([]byte(do(ctx, t, m, "peek", "sysctl", name)), &all))
	must.Need(t, all[name].Number != nil, "%s: %+v", name, all[name])
	return *all[name].Number
}

// TestFreeBSDAgainstLinux joins a FreeBSD and a Debian: a first test in both directions, and
// windows over a delay, while nothing else uses this machine's CPUs; in the short part a
// setting with a deadline.
func TestFreeBSDAgainstLinux(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Minute)
	defer cancel()
	near, far := besideLinux(ctx, t, "")
	server := far.Start(ctx, "linerate", "serve", "--open", "--announce=false")
	t.Run("look", func(t *testing.T) { firstLook(ctx, t, near, server) })
	if *onlyTwo {
		t.Run("set", func(t *testing.T) { setForAWhile(ctx, t, near) })
		return
	}
	t.Run("trace", func(t *testing.T) { traceThroughLinux(ctx, t, near, far) })
	var limits []string
	t.Run("windows", func(t *testing.T) {
		told(t, "`test` to Debian")
		sh(ctx, t, far, "tc qdisc replace dev eth0 root netem delay 40ms limit 20000")
		for _, direction := range []string{"--to", "--reverse"} {
			limits = append(limits, windowStory(ctx, t, near, direction))
		}
		sh(ctx, t, far, "tc qdisc del dev eth0 root")
	})
	t.Run("finding", func(t *testing.T) {
		told(t, "what the smallest of these windows limits")
		must.True(t, !slices.ContainsFunc(limits, func(s string) bool { return s != "receive window" && s != "send buffer" }) &&
			len(limits) == 2, "64 KiB, sent and received: limited by %q, where it is the window", limits)
	})
}

// agentByExec makes Debian start an agent on FreeBSD by a custom command, measure to it and
// change FreeBSD, and cuts the connection in the middle.
func agentByExec(ctx context.Context, t *testing.T, near, far *Machine) {
	told(t, "an agent by `exec:`")
	const way = "exec:10.0.0.1 /root/way"
	inetd := near.Start(ctx, "listen", "7", "/bin/linerate", "agent")
	until(ctx, t, near, func() bool { return strings.Contains(inetd.Printed(), "listening on") }, inetd)
	must.Do(t, far.Put(ctx, "/root/way", []byte("#!/bin/bash\nexec 3<>/dev/tcp/10.0.0.1/7\ncat <&3 & back=$!\ncat >&3\nkill $back\n"), 0o755))
	startedAgent(ctx, t, near, far, way, "pkill -KILL -x cat; pkill -KILL -f 'set --both'", inetd, func() {})
}

// agentOverSSH makes Debian copy linerate to FreeBSD over ssh, and do the same. The client is
// OpenSSH; the server and the programs of its scripts are those of package userland.
func agentOverSSH(ctx context.Context, t *testing.T, near, far *Machine) {
	told(t, "an agent over ssh")
	sshd := near.Start(ctx, "sshd", "22")
	until(ctx, t, near, func() bool { return strings.Contains(sshd.Printed(), "listening on") }, sshd)
	sh(ctx, t, far, "mkdir -p -m 700 /root/.ssh; echo 'StrictHostKeyChecking accept-new' > /root/.ssh/config; ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519")
	key, err1 := far.Get(ctx, "/root/.ssh/id_ed25519.pub")
	beastly, err2 := onFreeBSD()
	program, err3 := os.ReadFile(beastly)
	must.Do(t, errors.Join(err1, err2, err3))
	beside := strings.TrimSpace(sh(ctx, t, far, "dirname $(readlink -f $(command -v linerate))")) + "/linerate-freebsd-amd64"
	must.Do(t, errors.Join(near.Put(ctx, "/root/.ssh/authorized_keys", key, 0o600), far.Put(ctx, beside, program, 0o755)))
	do(ctx, t, near, "mv", "-f", "/bin/linerate", "/bin/away") // it would be used as it is
	t.Cleanup(func() { do(ctx, t, near, "mv", "-f", "/bin/away", "/bin/linerate") })
	copied := func() bool {
		return do(ctx, t, near, "sh", "-c", "for f in /tmp/linerate-*/linerate; do [ -e $f ] && echo $f; done; true") != ""
	}
	startedAgent(ctx, t, near, far, "root@10.0.0.1", "pkill -KILL -x ssh; pkill -KILL -f 'set --both'", sshd, func() {
		must.True(t, copied(), "no copy of linerate is in /tmp while its agent runs")
	})
	until(ctx, t, near, func() bool { return !copied() }, sshd)
}

// startedAgent measures from far to the agent that way starts on near, and changes near; while
// the change holds it calls open, and then cut ends the connection and the controller.
func startedAgent(ctx context.Context, t *testing.T, near, far *Machine, way, cut string, server *Program, open func()) {
	t.Helper()
	const sack = "net.inet.tcp.sack.enable"
	must.Contain(t, do(ctx, t, far, "linerate", "test", way, "-t", "1s", "-q", "--json=full"), `"os": "freebsd"`, "what test tells has no FreeBSD")
	p := far.Start(ctx, "linerate", "set", "--both", way, "far.tcp.sack=off", "--for", "4m")
	until(ctx, t, near, func() bool { return number(ctx, t, near, sack) == 0 }, p)
	open()
	sh(ctx, t, far, cut)
	r := must.Get(p.Wait())(t)
	must.True(t, r.Code != 0, "set, killed: %+v", r)
	until(ctx, t, near, func() bool { return number(ctx, t, near, sack) == 1 }, server)
}

// besideLinux boots a FreeBSD, 10.0.0.1, with a cable to a Debian, 10.0.0.2. more has loader
// variables.
func besideLinux(ctx context.Context, t *testing.T, more string) (near, far *Machine) {
	t.Helper()
	dir := short(t)
	needs(t, MissingFreeBSD())
	beastly, err1 := onFreeBSD()
	programs, err2 := programs()
	must.Do(t, errors.Join(err1, err2))
	cable := NewCable(dir, "wire")
	cfg := Debian("far", dir, "6.1", false, programs)
	if what := Missing(cfg.Needs()...); what != "" {
		t.Skip(what)
	}
	cfg.Cards = []Card{{Model: "e1000", MAC: "52:54:00:00:00:02", Cable: cable}}
	far = must.Get(Start(ctx, cfg))(t)
	t.Cleanup(far.Close)
	near = bsd(ctx, t, "near", dir, map[string]string{"em0": "10.0.0.1/24"}, map[string]string{"bin/linerate": beastly}, more,
		Card{Model: "e1000", MAC: "52:54:00:00:00:01", Cable: cable})
	for _, m := range []*Machine{far, near} {
		must.Do(t, m.Wait(ctx))
	}
	r, err := far.Shell(ctx, "ip addr add 10.0.0.2/24 dev eth0 && ip link set eth0 up && sysctl -qw net.core.rmem_max=8388608 net.core.wmem_max=8388608")
	must.Need(t, err == nil && r.Code == 0, "%+v, %v", r, err)
	return near, far
}

func firstLook(ctx context.Context, t *testing.T, near *Machine, server *Program) {
	var out string
	for try := 0; ; try++ {
		r, err := near.Run(ctx, "linerate", "test", "10.0.0.2", "-t", "2s", "--json=full")
		if err == nil && r.Code == 0 {
			out = r.Stdout
			break
		}
		if try == 3 {
			t.Fatalf("code %d, %v\n%s%s\nserver: %s", r.Code, err, r.Stdout, r.Stderr, server.Printed())
		}
		time.Sleep(3 * time.Second)
	}
	for _, want := range []string{"freebsd", "8086:100e", `"em"`, "10.0.0.2"} {
		must.Contain(t, out, want, "what test tells")
	}
}

// traceThroughLinux: Debian forwards to a namespace of its own, which FreeBSD finds by proxy
// ARP. The server receives probes on a port that all its clients share, and does not answer
// them.
func traceThroughLinux(ctx context.Context, t *testing.T, near, far *Machine) {
	told(t, "`test` through a router")
	sh(ctx, t, far, `ip netns add behind && ip link add v0 type veth peer name v1 netns behind && ip addr add 10.0.1.1/24 dev v0 && ip link set v0 up &&
ip -n behind addr add 10.0.0.130/32 dev v1 && ip -n behind link set v1 up && ip -n behind route add 10.0.1.1 dev v1 && ip -n behind route add default via 10.0.1.1 &&
ip route add 10.0.0.130 dev v0 && sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.eth0.proxy_arp=1`)
	server := far.Start(ctx, "ip", "netns", "exec", "behind", "linerate", "serve", "--open", "--announce=false")
	until(ctx, t, far, func() bool { return strings.Contains(server.Printed(), "listening on") }, server)
	out := do(ctx, t, near, "linerate", "test", "10.0.0.130", "-t", "5s", "--json=full", "-q")
	for _, want := range []string{
		`"direction": "to",\s*"hops": \[\s*\{\s*"ttl": 1,\s*"address": "10\.0\.0\.2",\s*"idle_ns": \[[^]]*[1-9][^]]*\],\s*"loaded_ns": \[[^]]*[1-9][^]]*\]`,
		`"address": "10\.0\.1\.1",[^{]*\{\s*"ttl": 2,\s*"address": "10\.0\.0\.1",\s*"arrived": true,[^}]*\}`,
	} {
		found := regexp.MustCompile(want).FindString(out)
		must.True(t, found != "", "no %s in %q", want, regexp.MustCompile(`"(hops|why)": [^}]*\}`).FindAllString(out, -1))
		t.Log(found)
	}
}

// setForAWhile: a change holds in the kernel until its deadline, and is gone afterwards.
func setForAWhile(ctx context.Context, t *testing.T, near *Machine) {
	const sack, most = "net.inet.tcp.sack.enable", "net.inet.tcp.recvbuf_max"
	n := number(ctx, t, near, sack)
	must.Need(t, n == 1, "%s is %d at first", sack, n)
	p := near.Start(ctx, "linerate", "set", "tcp.sack=off", "tcp.recv_buffer_max=1MiB", "--for", "30s", "--at-boot")
	held, job := false, false
	for range 60 {
		if number(ctx, t, near, sack) == 0 && number(ctx, t, near, most) == 1<<20 {
			held = true
			job = must.Err(near.Get(ctx, "/usr/local/etc/rc.d/linerate_undo")) == nil
			break
		}
		time.Sleep(time.Second)
	}
	r, err := p.Wait()
	must.Need(t, held, "never held in the kernel: code %d, %v\n%s%s", r.Code, err, r.Stdout, r.Stderr)
	must.True(t, job, "no job for the next start in rc.d while the change was open")
	for range 60 {
		if number(ctx, t, near, sack) == 1 && number(ctx, t, near, most) == 2<<20 {
			return
		}
		time.Sleep(time.Second)
	}
	t.Errorf("not undone: %s", do(ctx, t, near, "peek", "sysctl", sack, most))
}

// keepAndBack: a kept setting is in sysctl.conf, and undo removes it.
func keepAndBack(ctx context.Context, t *testing.T, near *Machine) {
	profile := "profile: 2\ntitle: window\nhosts:\n  - role: both\n    system: freebsd\n    knobs:\n      tcp.recv_buffer_max: 1MiB\n"
	must.Do(t, near.Put(ctx, "/tmp/tall.yaml", []byte(profile), 0o644))
	t.Log(do(ctx, t, near, "linerate", "keep", "/tmp/tall.yaml", "--interface", "em0", "--yes"))
	text := must.Get(near.Get(ctx, "/etc/sysctl.conf"))(t)
	must.True(t, strings.Contains(string(text), "net.inet.tcp.recvbuf_max=1048576"), "sysctl.conf: %q", text)
	t.Log(do(ctx, t, near, "linerate", "undo", "--kept"))
	text, err := near.Get(ctx, "/etc/sysctl.conf")
	must.True(t, err != nil || !strings.Contains(string(text), "recvbuf_max"), "sysctl.conf after undo --kept: %q", text)
	must.Equal(t, number(ctx, t, near, "net.inet.tcp.recvbuf_max"), 2<<20, "recvbuf_max after undo --kept")
}
