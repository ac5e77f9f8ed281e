package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// avahi is Avahi, the responder of Linux systems, on the near host: with a bus and a /run of
// its own. It ends with the test. What it returns runs Avahi's programs there.
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
	// It is as strict as it can be: what has crossed a router, it drops.
	file := write("avahi.conf", "[server]\nhost-name=avahi-a\nuse-ipv4=yes\nuse-ipv6=yes\nallow-interfaces=v0\ncheck-response-ttl=yes\n[wide-area]\nenable-wide-area=no\n")
	inside := func(ctx context.Context, program string, args ...string) *exec.Cmd {
		c := referee.Command(t, program, args...)
		cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name("near")}, c.Args...)...)
		cmd.Env = append(c.Environ(), "DBUS_SYSTEM_BUS_ADDRESS="+address)
		cmd.WaitDelay = patience
		return cmd
	}
	start(t, inside(t.Context(), bus, "--nofork", "--config-file="+busFile))
	eventually(t, patience, "a bus", func() bool { _, err := os.Stat(filepath.Join(n.dir, "bus")); return err == nil })
	p := start(t, inside(t.Context(), "unshare", "-m", "sh", "-c", `mount -t tmpfs none /run && exec "$@"`, "sh",
		daemon, "--no-drop-root", "--no-chroot", "--no-rlimits", "-f", file))
	defer func() {
		if t.Failed() {
			t.Log(p.complaints())
		}
	}()
	eventually(t, patience, "avahi-daemon is up", func() bool { return strings.Contains(p.complaints(), "Server startup complete") })
	return inside
}

// TestFirstHour15Avahi: what serve announces Avahi finds, over IPv4 and IPv6, with its
// pin; and a server that Avahi announces is found by linerate.
func TestFirstHour15Avahi(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	avahi := n.avahi(t)
	browse, publish := referee.Program(t, "avahi-browse"), referee.Program(t, "avahi-publish")
	cmd := n.inside(t, "far", "serve", "--state", n.state("far"), "--open")
	cmd.Env = append(cmd.Env, "LINERATE_MDNS=")
	p := start(t, cmd)
	eventually(t, patience, "serve listens", func() bool { return strings.Contains(p.said(), "listening") })
	pin := regexp.MustCompile(`linerate://([\w-]{43})`).FindStringSubmatch(p.said())
	must.Need(t, pin != nil, "no link in %s", p.said())
	var said string
	eventually(t, patience, "Avahi finds it by both protocols", func() bool {
		out, err := avahi(t.Context(), browse, "-r", "-t", "-p", "_linerate._tcp").Output()
		said = fmt.Sprintf("%s%v", out, err)
		return strings.Contains(said, "=;v0;IPv4;") && strings.Contains(said, "=;v0;IPv6;")
	})
	for _, want := range []string{";" + farAddr + ";5299;", ";fe80:", `"pin=` + pin[1] + `"`} {
		must.Contain(t, said, want, "not")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	// Avahi says it of the near host, where linerate then has to be.
	published := start(t, avahi(ctx, publish, "-s", "lr-printed", "_linerate._tcp", "5299", "txtvers=1", "pin="+pin[1]))
	defer func() { stop(); published.wait(t, patience) }()
	look := n.inside(t, "far", "test", "lr-printed", "--json", "-t", "0.3s", "--omit", "0s", "--to", "--idle", "0s", "--timeout", "3s")
	look.Env = append(look.Env, "LINERATE_MDNS=")
	r := run(t, look)
	must.True(t, r.code == 3 && strings.Contains(r.err, nearAddr), "what Avahi announces of %s, where nothing listens: exit code %d\n%s", nearAddr, r.code, r.err)
	p.signal(t, syscall.SIGTERM)
	p.wait(t, patience)
}
