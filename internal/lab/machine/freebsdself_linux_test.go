//go:build vm

package machine

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestFreeBSDAgainstItself joins two FreeBSD machines: a first look in both directions
// and a change of both, as one has told the other; then what one of them refuses, and an
// MTU.
func TestFreeBSDAgainstItself(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Minute)
	defer cancel()
	dir := short(t)
	if what := MissingFreeBSD(); what != "" {
		t.Skip(what)
	}
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

// limitsOfFreeBSD: a buffer that the limit of all sockets has no room for is refused
// before anything is written, and set with it in the right order; an MTU is set in the
// driver and undone.
func limitsOfFreeBSD(ctx context.Context, t *testing.T, near *Machine) {
	told(t, "buffers above 8/9")
	const most, all = "net.inet.tcp.recvbuf_max", "kern.ipc.maxsockbuf"
	r := must.Get(near.Run(ctx, "linerate", "set", "tcp.recv_buffer_max=4MiB", "--for", "5s"))(t)
	must.True(t, r.Code != 0 && strings.Contains(r.Stderr, "8/9 of socket.buffer_max"), "a buffer without room: %+v", r)
	n := number(ctx, t, near, most)
	must.True(t, n == 2<<20, "%s is %d after it was refused", most, n)
	p := near.Start(ctx, "linerate", "set", "tcp.recv_buffer_max=4MiB", "socket.buffer_max=4718592", "link.mtu=1400", "--interface", "em0", "--for", "20s")
	until(ctx, t, near, func() bool {
		return number(ctx, t, near, most) == 4<<20 && number(ctx, t, near, all) == 4718592 && strings.Contains(do(ctx, t, near, "peek", "interface", "em0"), `"MTU": 1400,`)
	}, p)
	if r, err := p.Wait(); err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if n, limit := number(ctx, t, near, most), number(ctx, t, near, all); n != 2<<20 || limit != 2<<20 || !strings.Contains(do(ctx, t, near, "peek", "interface", "em0"), `"MTU": 1500,`) {
		t.Errorf("after it %d and %d: %s", n, limit, do(ctx, t, near, "peek", "interface", "em0"))
	}
}

// keepOnBoth keeps a setting on both machines by one command of one of them, and takes
// it back on each.
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
		text, err := m.Get(ctx, "/etc/sysctl.conf")
		must.True(t, err != nil, "sysctl.conf of %s is still there: %s", m.cfg.Name, text)
		must.Equal(t, number(ctx, t, m, "net.inet.tcp.delayed_ack"), 1, "delayed_ack of %s", m.cfg.Name)
	}
}
