//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// link is where each host has the join link of the other, with the right to tune.
const link = "/root/other.link"

// TestFreeBSDBoth joins a FreeBSD and a Debian, each of which serves the other: nobody
// without a key; settings of both as one change, from either; a setting under a deadline
// and a kept one; an agent by exec, and over ssh; and a search that finds the buffers that were made too
// small. FreeBSD's kernel and files are the judge, and sysctl(8) of Debian.
func TestFreeBSDBoth(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	near, far := besideLinux(ctx, t, "")
	t.Run("serve", func(t *testing.T) { serveEachOther(ctx, t, near, far) })
	if t.Failed() {
		return
	}
	t.Run("set", func(t *testing.T) { setBoth(ctx, t, near, far) })
	t.Run("keep", func(t *testing.T) {
		told(t, "`set` under a deadline")
		setForAWhile(ctx, t, near)
		keepAndBack(ctx, t, near)
	})
	t.Run("exec", func(t *testing.T) { agentByExec(ctx, t, near, far) })
	t.Run("ssh", func(t *testing.T) { agentOverSSH(ctx, t, near, far) })
	sh(ctx, t, far, "tc qdisc replace dev eth0 root netem delay 60ms limit 20000")
	t.Run("run", func(t *testing.T) { runFreeBSD(ctx, t, near) })
	t.Run("tune", func(t *testing.T) { tuneFreeBSD(ctx, t, near) })
}

// serveEachOther starts servers that may tune, refuses a client without a key, and has
// each host measure to the other with one.
func serveEachOther(ctx context.Context, t *testing.T, near, far *Machine) {
	told(t, "`serve` with a key")
	for m, o := range map[*Machine]struct {
		address string
		other   *Machine
	}{near: {"10.0.0.1", far}, far: {"10.0.0.2", near}} {
		text := do(ctx, t, m, "linerate", "serve", "key", "add", "tuner", "--right", "tune", "--host", o.address)
		found := regexp.MustCompile(`linerate://\S+`).FindString(text)
		must.Need(t, found != "", "no link in %q", text)
		must.Do(t, o.other.Put(ctx, link, []byte(found+"\n"), 0o600))
		server := m.Start(ctx, "linerate", "serve", "--allow-tune", "--audit", "/root/audit")
		until(ctx, t, m, func() bool { return strings.Contains(server.Printed(), "listening on") }, server)
	}
	r, err := far.Run(ctx, "linerate", "test", "10.0.0.1", "-t", "1s")
	must.True(t, err == nil && r.Code != 0 && strings.Contains(r.Stdout+r.Stderr, "join link"), "a client without a key: %+v, %v", r, err)
	wrong := `set -- $(cat ` + link + `); echo "$1" | sed 's/\.[^@]*@/.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@/' > /root/wrong.link; chmod 600 /root/wrong.link; linerate test @/root/wrong.link -t 1s`
	r, err = far.Shell(ctx, wrong)
	must.True(t, err == nil && r.Code != 0 && strings.Contains(r.Stdout+r.Stderr, "secret"), "a client with another secret: %+v, %v", r, err)
	for _, m := range []*Machine{near, far} {
		do(ctx, t, m, "linerate", "test", "@"+link, "-t", "1s", "-q")
	}
	audit, err := near.Get(ctx, "/root/audit")
	if err != nil || !strings.Contains(string(audit), "tuner") || !strings.Contains(string(audit), "refused") {
		t.Errorf("FreeBSD's audit log: %s, %v", audit, err)
	}
}

// linux is a variable of Debian.
func linux(ctx context.Context, t *testing.T, far *Machine, name string) string {
	t.Helper()
	return strings.TrimSpace(sh(ctx, t, far, "sysctl -n "+name))
}

// setBoth changes both hosts for a while, from FreeBSD and from Debian.
func setBoth(ctx context.Context, t *testing.T, near, far *Machine) {
	told(t, "`set --both`")
	const sack, ack, most = "net.inet.tcp.sack.enable", "net.inet.tcp.delayed_ack", "net.inet.tcp.recvbuf_max"
	state := func() [4]string {
		var all [4]string
		for i, name := range []string{sack, ack, most} {
			all[i] = variableText(ctx, t, near, name)
		}
		all[3] = linux(ctx, t, far, "net.ipv4.tcp_sack")
		return all
	}
	before := state()
	for _, one := range []struct {
		m    *Machine
		args []string
		want [4]string
	}{
		{near, []string{"near.tcp.sack=off", "near.tcp.delayed_ack=0", "far.tcp.sack=off"}, [4]string{"0", "0", before[2], "0"}},
		{far, []string{"near.tcp.sack=off", "far.tcp.recv_buffer_max=1MiB", "far.tcp.delayed_ack=0"}, [4]string{before[0], "0", "1048576", "0"}},
	} {
		p := one.m.Start(ctx, append([]string{"linerate", "set", "--both", "@" + link, "--for", "30s"}, one.args...)...)
		until(ctx, t, near, func() bool { return state() == one.want }, p)
		r, err := p.Wait()
		must.True(t, err == nil && strings.Contains(r.Stdout+r.Stderr, "undone: held for 30 s"), "%q: %+v, %v", one.args, r, err)
		after := state()
		must.True(t, after == before, "%q: %v after it, %v before", one.args, after, before)
	}
	// One end refuses: nothing is changed on either.
	r, err := near.Run(ctx, "linerate", "set", "--both", "@"+link, "--for", "5s", "near.tcp.sack=off", "far.tcp.congestion_control=nosuch")
	if err != nil || r.Code == 0 || state() != before {
		t.Errorf("a change that the far end cannot make: %+v, %v; %v", r, err, state())
	}
}

// variableText is a variable of FreeBSD as text.
func variableText(ctx context.Context, t *testing.T, m *Machine, name string) string {
	t.Helper()
	b := must.Get(json.Marshal(number(ctx, t, m, name)))(t)
	return string(b)
}

// small are FreeBSD's buffers made far too small for the delay.
func small() []string {
	return []string{"sysctl", "net.inet.tcp.recvspace=16384", "net.inet.tcp.recvbuf_max=16384", "net.inet.tcp.sendbuf_max=65536", "kern.ipc.maxsockbuf=131072"}
}

// runFreeBSD compares two buffers, has what proved better kept, and takes it back.
func runFreeBSD(ctx context.Context, t *testing.T, near *Machine) {
	told(t, "`run`")
	const most = "net.inet.tcp.recvbuf_max"
	do(ctx, t, near, small()...)
	text := do(ctx, t, near, "linerate", "run", "@"+link, "--direction", "from", "--factor", "near.tcp.recv_buffer_max=16KiB,64KiB", "--blocks", "6", "-t", "3s", "-q")
	t.Logf("%s", text)
	if !regexp.MustCompile(`[234]\.\d+ times as fast, at least .*decided`).MatchString(text) {
		t.Error("four times the window is not told as about four times the rate")
	}
	must.Equal(t, number(ctx, t, near, most), 16384, "after the runs %s", most)
	// The guard of the round trip may stay open: emulated processors answer unevenly.
	t.Log(do(ctx, t, near, "linerate", "keep", "last", "--interface", "em0", "--despite-guards", "--yes"))
	conf := must.Get(near.Get(ctx, "/etc/sysctl.conf"))(t)
	must.True(t, strings.Contains(string(conf), most+"=65536"), "sysctl.conf: %q", conf)
	t.Log(do(ctx, t, near, "linerate", "undo", "--kept"))
	if conf, err := near.Get(ctx, "/etc/sysctl.conf"); err == nil && strings.Contains(string(conf), most) {
		t.Errorf("sysctl.conf after undo --kept: %q", conf)
	}
}

// tuneFreeBSD has a search find and prove that the buffers are too small; afterwards they
// are as they were.
func tuneFreeBSD(ctx context.Context, t *testing.T, near *Machine) {
	told(t, "`tune`")
	const most, all = "net.inet.tcp.recvbuf_max", "kern.ipc.maxsockbuf"
	do(ctx, t, near, small()...)
	text := do(ctx, t, near, "linerate", "tune", "@"+link, "--direction", "from", "--quick", "-t", "3s", "--allow", "risky", "-q")
	t.Logf("%s", text)
	must.Contain(t, text, "times as fast", "the search does not find that the receive buffer of FreeBSD is too small")
	n, limit := number(ctx, t, near, most), number(ctx, t, near, all)
	must.True(t, n == 16384 && limit == 131072, "after the search %s is %d, %s %d", most, n, all, limit)
}
