//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestFreeBSDAgainstItself joins two FreeBSD machines: a first test in both directions and a
// change of both, requested by one; then what one of them refuses, and an MTU.
func TestFreeBSDAgainstItself(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Minute)
	defer cancel()
	dir := short(t)
	needs(t, MissingFreeBSD())
	program := must.Get(onFreeBSD())(t)
	cable := NewCable(dir, "wire")
	files := map[string]string{"bin/linerate": program}
	far := bsd(ctx, t, "far", dir, map[string]string{"em0": "10.0.0.2/24"}, files, "", Card{Model: "e1000", MAC: "52:54:00:00:00:02", Cable: cable})
	near := bsd(ctx, t, "near", dir, map[string]string{"em0": "10.0.0.1/24"}, files, "", Card{Model: "e1000", MAC: "52:54:00:00:00:01", Cable: cable})
	for _, m := range []*Machine{far, near} {
		must.Do(t, m.Wait(ctx))
	}
	found := regexp.MustCompile(`linerate://\S+`).FindString(do(ctx, t, far, "linerate", "serve", "key", "add", "tuner", "--right", "tune", "--host", "10.0.0.2"))
	must.Do(t, near.Put(ctx, link, []byte(found+"\n"), 0o600))
	server := far.Start(ctx, "linerate", "serve", "--allow-tune")
	until(ctx, t, far, func() bool { return strings.Contains(server.Printed(), "listening on") }, server)
	t.Run("pair", func(t *testing.T) {
		told(t, "`test` and `set --both` between")
		out := do(ctx, t, near, "linerate", "test", "@"+link, "-t", "2s", "--json=full", "-q")
		n := strings.Count(out, `"os": "freebsd"`)
		must.True(t, n >= 2, "what test tells has %d hosts with FreeBSD", n)
		const ack = "net.inet.tcp.delayed_ack"
		p := near.Start(ctx, "linerate", "set", "--both", "@"+link, "tcp.delayed_ack=0", "--for", "20s")
		until(ctx, t, near, func() bool { return number(ctx, t, near, ack) == 0 && number(ctx, t, far, ack) == 0 }, p)
		r := must.Get(p.Wait())(t)
		must.True(t, strings.Contains(r.Stdout+r.Stderr, "undone: held for 20 s"), "%+v", r)
		a, b := number(ctx, t, near, ack), number(ctx, t, far, ack)
		must.True(t, a == 1 && b == 1, "after it %d and %d", a, b)
	})
	t.Run("keep", func(t *testing.T) { keepOnBoth(ctx, t, near, far) })
	t.Run("limits", func(t *testing.T) { limitsOfFreeBSD(ctx, t, near) })
}

// limitsOfFreeBSD: a buffer beyond the limit of all sockets is refused before anything is
// written, and set together with the limit in the right order; an MTU is set in the driver and
// undone.
func limitsOfFreeBSD(ctx context.Context, t *testing.T, near *Machine) {
	told(t, "buffers above 8/9")
	const most, all = "net.inet.tcp.recvbuf_max", "kern.ipc.maxsockbuf"
	r := must.Get(near.Run(ctx, "linerate", "set", "tcp.recv_buffer_max=4MiB", "--for", "5s"))(t)
	must.True(t, r.Code != 0 && strings.Contains(r.Stderr, "8/9 of socket.buffer_max"), "a buffer without room: %+v", r)
	must.Equal(t, number(ctx, t, near, most), 2<<20, "%s is", most)
	p := near.Start(ctx, "linerate", "set", "tcp.recv_buffer_max=4MiB", "socket.buffer_max=4718592", "link.mtu=1400", "--interface", "em0", "--for", "20s")
	until(ctx, t, near, func() bool {
		return number(ctx, t, near, most) == 4<<20 && number(ctx, t, near, all) == 4718592 && strings.Contains(do(ctx, t, near, "peek", "interface", "em0"), `"MTU": 1400,`)
	}, p)
	r, err := p.Wait()
	must.OK(t, err, "%+v", r)
	if n, limit := number(ctx, t, near, most), number(ctx, t, near, all); n != 2<<20 || limit != 2<<20 || !strings.Contains(do(ctx, t, near, "peek", "interface", "em0"), `"MTU": 1500,`) {
		t.Errorf("after it %d and %d: %s", n, limit, do(ctx, t, near, "peek", "interface", "em0"))
	}
}

// keepOnBoth keeps a setting on both machines by one command on one of them, and undoes it on
// each.
func keepOnBoth(ctx context.Context, t *testing.T, near, far *Machine) {
	told(t, "`keep --both`")
	const profile = "profile: 2\ntitle: both\nhosts:\n  - role: both\n    system: freebsd\n    knobs:\n      tcp.delayed_ack: 0\n"
	must.Do(t, near.Put(ctx, "/root/both.yaml", []byte(profile), 0o644))
	t.Log(do(ctx, t, near, "linerate", "keep", "/root/both.yaml", "@"+link, "--both", "--yes"))
	for _, m := range []*Machine{near, far} {
		text, err := m.Get(ctx, "/etc/sysctl.conf")
		must.True(t, err == nil && strings.Contains(string(text), "\nnet.inet.tcp.delayed_ack=0\n"), "sysctl.conf of %s: %s, %v", m.cfg.Name, text, err)
	}
	t.Log(do(ctx, t, near, "linerate", "undo", "--kept") + do(ctx, t, near, "linerate", "undo", "--kept", "@"+link))
	for _, m := range []*Machine{near, far} {
		must.Fail(t, must.Err(m.Get(ctx, "/etc/sysctl.conf")), "sysctl.conf of %s is still there", m.cfg.Name)
		must.Equal(t, number(ctx, t, m, "net.inet.tcp.delayed_ack"), 1, "delayed_ack of %s", m.cfg.Name)
	}
}

// TestFreeBSDBuffers: a FreeBSD with 1200 clusters, most of which its card's ring holds, runs
// out of them while it sends with large windows over a delay, as in the first article. The
// kernel's own console shows that it happened; linerate names it, its place and the setting
// that is the limit, and does not raise that for a trial, because this kernel could not lower
// it again.
func TestFreeBSDBuffers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	const said = "kern.ipc.nmbclusters limit reached"
	told(t, "buffers of the kernel")
	near, far := besideLinux(ctx, t, "kern.ipc.nmbclusters=1200 kern.ipc.nmbjumbop=100")
	n := number(ctx, t, near, "kern.ipc.nmbclusters")
	must.Need(t, n == 1200 && !strings.Contains(near.Console(), said), "%d clusters at first; console: %s", n, last(near.Console(), 500))
	sh(ctx, t, far, "tc qdisc replace dev eth0 root netem delay 40ms limit 20000")
	server := far.Start(ctx, "linerate", "serve", "--open", "--announce=false")
	until(ctx, t, far, func() bool { return strings.Contains(server.Printed(), "listening on") }, server)
	r, err := near.Run(ctx, "linerate", "test", "10.0.0.2", "--to", "-t", "4s", "--omit", "1s", "--idle", "0s", "-w", "1MiB", "-P", "4", "--json")
	var d struct {
		Session struct {
			Reason   string
			Findings []struct {
				Rule, Host, Limit, Evidence string
				Knobs                       []string
			}
		}
	}
	if err != nil || json.Unmarshal([]byte(r.Stdout), &d) != nil {
		t.Fatalf("%+v, %v; server: %s", r, err, server.Printed())
	}
	must.Need(t, strings.Contains(near.Console(), said), "the kernel did not run out of clusters: %s", last(near.Console(), 500))
	if len(d.Session.Findings) == 0 { // its card got no new cluster, so that it receives nothing any more
		why := d.Session.Reason
		must.True(t, r.Code != 0 && strings.Contains(why, "contact lost") && strings.Contains(why, "meanwhile on this machine: ") && strings.Contains(why, "buffer"), "exit code %d, %q\n%s", r.Code, why, r.Stderr)
	} else if first := d.Session.Findings[0]; first.Rule != "B13" || first.Host != "near" || !slices.Contains(first.Knobs, "mbuf.clusters") {
		t.Errorf("the first finding is %+v", first)
	}
	refused, err := near.Run(ctx, "linerate", "set", "mbuf.clusters=16384", "--for", "5s")
	must.True(t, err == nil && refused.Code != 0 && strings.Contains(refused.Stderr, "/boot/loader.conf"), "raised for a trial: %+v, %v", refused, err)
	must.Equal(t, number(ctx, t, near, "kern.ipc.nmbclusters"), 1200, "clusters after it")
}

// windowStory: over a path of 40 ms, windows from 64 KiB to 1536 KiB, set for the sockets of
// the test as in the articles, carry what window and round trip allow, until the machine itself
// is the limit and larger ones help no more. The receiver is Debian with FreeBSD's sender, or
// FreeBSD with Debian's. It returns what the first finding names for the smallest window.
func windowStory(ctx context.Context, t *testing.T, near *Machine, direction string) (smallest string) {
	t.Helper()
	const roundTrip = 0.040
	var all []float64
	for _, kib := range []int{64, 128, 256, 512, 1024, 1536} {
		rate, limit := look(ctx, t, near, direction, strconv.Itoa(kib)+"KiB")
		most := float64(kib) * 1024 * 8 / roundTrip
		t.Logf("%5d KiB: %6.2f Mbit/s of %6.2f that the window allows; %s", kib, rate/1e6, most/1e6, limit)
		must.True(t, rate <= most*1.1, "%d KiB: %.0f bit/s, above what window and round trip allow", kib, rate)
		must.True(t, kib > 128 || rate >= most*0.6, "%d KiB: %.0f bit/s, far below what the window allows", kib, rate)
		if kib == 64 {
			smallest = limit
		}
		all = append(all, rate)
	}
	must.True(t, !(all[3] < 2.5*all[0]), "512 KiB carry %.0f bit/s, 64 KiB %.0f: the window does not grow", all[3], all[0])
	must.True(t, !(all[5] > 2*all[4]), "1536 KiB carry %.0f bit/s, 1024 KiB %.0f: no plateau", all[5], all[4])
	return smallest
}

// look runs a test in one direction, --to or --reverse, with a window, and returns its goodput
// in bit/s and what its first finding names.
func look(ctx context.Context, t *testing.T, near *Machine, direction, window string) (rate float64, limit string) {
	t.Helper()
	text := do(ctx, t, near, "linerate", "test", "10.0.0.2", direction, "-t", "4s", "--omit", "2s", "--idle", "0s", "-w", window, "--json")
	var d struct {
		Session struct {
			Findings []struct{ Limit string }
			Runs     []struct {
				Values []struct {
					Metric string
					Value  float64
				}
			}
		}
	}
	err := json.Unmarshal([]byte(text), &d)
	must.Need(t, err == nil, "%v in %s", err, text)
	for _, r := range d.Session.Runs {
		for _, v := range r.Values {
			if v.Metric == "goodput" {
				rate = v.Value
			}
		}
	}
	must.Need(t, rate != 0, "no goodput in %s", text)
	if len(d.Session.Findings) > 0 {
		limit = d.Session.Findings[0].Limit
	}
	return rate, limit
}

// link is the path of the other host's join link, with the right to tune, on each host.
const link = "/root/other.link"

// TestFreeBSDBoth joins a FreeBSD and a Debian, each of which serves the other, but no client
// without a key; settings of both as one change, from either; a setting with a deadline and a
// kept one; an agent by exec, and over ssh; and a search that finds buffers that were made too
// small. The results are checked in FreeBSD's kernel and files, and with Debian's sysctl(8).
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

// serveEachOther starts servers that may tune, checks that a client without a key is refused,
// and makes each host measure to the other with one.
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
	must.True(t, err == nil && strings.Contains(string(audit), "tuner") && strings.Contains(string(audit), "refused"), "FreeBSD's audit log: %s, %v", audit, err)
}

// linux returns a variable of Debian.
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
		must.Equal(t, state(), before, "%q", one.args)
	}
	// One end refuses: nothing is changed on either.
	r, err := near.Run(ctx, "linerate", "set", "--both", "@"+link, "--for", "5s", "near.tcp.sack=off", "far.tcp.congestion_control=nosuch")
	must.True(t, err == nil && r.Code != 0 && state() == before, "a change that the far end cannot make: %+v, %v; %v", r, err, state())
}

// variableText is a variable of FreeBSD as text.
func variableText(ctx context.Context, t *testing.T, m *Machine, name string) string {
	t.Helper()
	return string(must.Get(json.Marshal(number(ctx, t, m, name)))(t))
}

// small returns a command that makes FreeBSD's buffers far too small for the delay.
func small() []string {
	return []string{"sysctl", "net.inet.tcp.recvspace=16384", "net.inet.tcp.recvbuf_max=16384", "net.inet.tcp.sendbuf_max=65536", "kern.ipc.maxsockbuf=131072"}
}

// runFreeBSD compares two buffers, keeps the one that proved better, and undoes it.
func runFreeBSD(ctx context.Context, t *testing.T, near *Machine) {
	told(t, "`run`")
	const most = "net.inet.tcp.recvbuf_max"
	do(ctx, t, near, small()...)
	text := do(ctx, t, near, "linerate", "run", "@"+link, "--direction", "from", "--factor", "near.tcp.recv_buffer_max=16KiB,64KiB", "--blocks", "6", "-t", "3s", "-q")
	t.Logf("%s", text)
	must.True(t, regexp.MustCompile(`[234]\.\d+ times as fast, at least .*decided`).MatchString(text),
		"four times the window is not told as about four times the rate")
	must.Equal(t, number(ctx, t, near, most), 16384, "after the runs %s", most)
	// The round-trip guard may remain undecided: emulated CPUs answer unevenly.
	t.Log(do(ctx, t, near, "linerate", "keep", "last", "--interface", "em0", "--despite-guards", "--yes"))
	conf := must.Get(near.Get(ctx, "/etc/sysctl.conf"))(t)
	must.True(t, strings.Contains(string(conf), most+"=65536"), "sysctl.conf: %q", conf)
	t.Log(do(ctx, t, near, "linerate", "undo", "--kept"))
	conf, err := near.Get(ctx, "/etc/sysctl.conf")
	must.True(t, err != nil || !strings.Contains(string(conf), most), "sysctl.conf after undo --kept: %q", conf)
}

// tuneFreeBSD makes a search find and prove that the buffers are too small; afterwards they are
// as before.
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
