//go:build vm

package machine

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// keptOnFreeBSD is kept for the next start: a sysctl, and an MTU in rc.conf.
const keptOnFreeBSD = `profile: 2
title: after a restart
hosts:
  - role: both
    system: freebsd
    knobs:
      tcp.delayed_ack: 0
      tcp.recv_buffer_max: 1MiB
      link.mtu: 1400
`

// TestFreeBSDReset resets a FreeBSD in the middle of a change, without warning. Afterwards kept
// settings are in force, by rc.conf and sysctl.conf; open ones are not, and the script in rc.d
// has reported that it ran, and is gone with its copy of the program; after undo --kept and
// another reset the state is as before.
func TestFreeBSDReset(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	dir := short(t)
	needs(t, MissingFreeBSD())
	told(t, "`keep`, a change open")
	program := must.Get(onFreeBSD())(t)
	m := bsd(ctx, t, "alone", dir, map[string]string{"em0": "10.0.0.1/24"}, map[string]string{"bin/linerate": program}, "",
		Card{Model: "e1000", MAC: "52:54:00:00:00:01"})
	must.Do(t, m.Wait(ctx))
	again := func() {
		t.Helper()
		do(ctx, t, m, "sync") // as the kernel does every half minute
		must.Do(t, m.Reset(ctx))
		must.Do(t, m.Wait(ctx))
	}
	look := func() string {
		t.Helper()
		return do(ctx, t, m, "peek", "sysctl", "net.inet.tcp.delayed_ack", "net.inet.tcp.recvbuf_max", "net.inet.tcp.sack.enable", "net.inet.tcp.rfc1323") +
			do(ctx, t, m, "peek", "interface", "em0") + do(ctx, t, m, "sh", "-c", `for f in /etc/* /boot/* /usr/local/etc/rc.d/*; do echo "$f"; done; while read -r l; do echo "$l"; done < /etc/rc.conf`)
	}
	before := look()
	must.Do(t, m.Put(ctx, "/root/kept.yaml", []byte(keptOnFreeBSD), 0o644))
	t.Log(do(ctx, t, m, "linerate", "keep", "/root/kept.yaml", "--interface", "em0", "--yes"))
	set := m.Start(ctx, "linerate", "set", "tcp.sack=off", "tcp.recv_buffer_max=512KiB", "--for", "1h", "--at-boot", "-q")
	until(ctx, t, m, func() bool {
		return number(ctx, t, m, "net.inet.tcp.sack.enable") == 0 && number(ctx, t, m, "net.inet.tcp.recvbuf_max") == 512<<10
	}, set)
	must.Dof(t, must.Err(m.Get(ctx, "/usr/local/etc/rc.d/linerate_undo")), "no job for the next start")
	again()
	for name, want := range map[string]int64{"net.inet.tcp.delayed_ack": 0, "net.inet.tcp.recvbuf_max": 1 << 20, "net.inet.tcp.sack.enable": 1} {
		must.Equal(t, number(ctx, t, m, name), want, "after the reset %s", name)
	}
	must.Contain(t, do(ctx, t, m, "peek", "interface", "em0"), `"MTU": 1400,`, "after the reset")
	said := m.Console()
	said = said[strings.LastIndex(said, "trying /sbin/init"):]
	t.Logf("what the start printed:\n%s", said)
	for _, want := range []string{
		"at-boot: removed /usr/local/etc/rc.d/linerate_undo",
		"tcp.sack (net.inet.tcp.sack.enable): back to on (was back already: the machine was restarted)",
		"tcp.recv_buffer_max (net.inet.tcp.recvbuf_max): back to 1 MiB (which linerate keeps: the machine was restarted)",
	} {
		must.Contain(t, said, want, "the script in rc.d")
	}
	for _, gone := range []string{"/usr/local/etc/rc.d/linerate_undo", "/var/lib/linerate/atboot/linerate"} {
		must.Fail(t, must.Err(m.Get(ctx, gone)), "%s is still there", gone)
	}
	must.Contain(t, do(ctx, t, m, "linerate", "undo"), "nothing to undo", "undo after it")
	t.Log(do(ctx, t, m, "linerate", "undo", "--kept"))
	again()
	must.Equal(t, look(), before, "after undo --kept and a reset")
}

// until waits until a condition holds in a machine, at most two minutes.
func until(ctx context.Context, t *testing.T, m *Machine, holds func() bool, what ...*Program) {
	t.Helper()
	for range 120 {
		if holds() {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(time.Second):
		}
	}
	for _, p := range what {
		t.Log(p.Printed())
	}
	t.Fatalf("never held in %s", m.cfg.Name)
}

// TestTwoMachines: two machines boot, are joined by a cable, run programs, exchange files, see
// the cable pulled, and come back from a reset with what was on disk.
func TestTwoMachines(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "vm") //nolint:usetesting // sockets have short paths
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	programs := must.Get(Programs(dir, must.Get(BuildGuest(ctx, "linux", dir))(t)))(t)
	cable := NewCable(dir, "wire")
	var both [2]*Machine
	for i, name := range []string{"near", "far"} {
		cfg := Debian(name, dir, "6.1", false, programs)
		needs(t, Missing(cfg.Needs()...))
		cfg.Cards = []Card{{Model: "e1000", MAC: "52:54:00:00:00:0" + string(rune('1'+i)), Cable: cable}}
		both[i], err = Start(ctx, cfg)
		must.Do(t, err)
		t.Cleanup(both[i].Close)
	}
	began := time.Now()
	for i, m := range both {
		must.Do(t, m.Wait(ctx))
		t.Logf("up after %.1f s", time.Since(began).Seconds())
		r := must.Get(m.Shell(ctx, "ip addr add 10.0.0."+string(rune('1'+i))+"/24 dev eth0 && ip link set eth0 up"))(t)
		must.Need(t, r.Code == 0, "%+v", r)
	}
	near := both[0]
	r := must.Get(near.Run(ctx, "ping", "-c2", "-w20", "10.0.0.2"))(t)
	must.Need(t, r.Code == 0, "ping: %+v", r)
	r, err = near.Shell(ctx, "echo out; echo err >&2; exit 7")
	must.Need(t, err == nil && r.Stdout == "out\n" && r.Stderr == "err\n" && r.Code == 7, "shell: %+v, %v", r, err)
	text := strings.Repeat("a file of some length\n", 20000)
	must.Do(t, near.Put(ctx, "/root/kept/file", []byte(text), 0o640))
	must.Do(t, near.SetLink(ctx, "n0", false))
	carrier := func(want string) {
		t.Helper()
		r, err := near.Shell(ctx, "for i in $(seq 100); do [ $(cat /sys/class/net/eth0/carrier) = "+want+" ] && exit; sleep 0.1; done; exit 1")
		must.Need(t, err == nil && r.Code == 0, "carrier never %s: %+v, %v", want, r, err)
	}
	carrier("0")
	must.Do(t, near.SetLink(ctx, "n0", true))
	carrier("1")
	for range 2 {
		must.Do(t, near.Reset(ctx))
		must.Do(t, near.Wait(ctx))
		got := must.Get(near.Get(ctx, "/root/kept/file"))(t)
		must.Need(t, string(got) == text, "after a reset the file has %d bytes", len(got))
	}
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	r, err = near.Run(short, "sleep", "1000")
	must.Need(t, err != nil, "a program that was given up: %+v", r)
	r, err = near.Shell(ctx, "pgrep -x sleep")
	must.Need(t, err == nil && r.Code == 1, "it is still there: %+v, %v", r, err)
}

// TestAMachineThatCannotStart: the error has qemu's message.
func TestAMachineThatCannotStart(t *testing.T) {
	needs(t, Missing())
	_, err := Start(t.Context(), Config{Name: "none", Dir: t.TempDir(), Kernel: "/nonexistent"})
	must.Need(t, err != nil && strings.Contains(err.Error(), "/nonexistent"), "%v", err)
}
