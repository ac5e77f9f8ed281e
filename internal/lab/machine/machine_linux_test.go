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

// TestTwoMachines: two machines boot, are joined by a cable, run programs, take and
// give files, see the cable pulled, and come back from a reset with what was on disk.
func TestTwoMachines(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "vm") //nolint:usetesting // sockets have short paths
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	guest := must.Get(BuildGuest(ctx, "linux", dir))(t)
	programs := must.Get(Programs(dir, guest))(t)
	cable := NewCable(dir, "wire")
	var both [2]*Machine
	for i, name := range []string{"near", "far"} {
		cfg := Debian(name, dir, "6.1", false, programs)
		if what := Missing(cfg.Needs()...); what != "" {
			t.Skip(what)
		}
		cfg.Cards = []Card{{Model: "e1000", MAC: "52:54:00:00:00:0" + string(rune('1'+i)), Cable: cable}}
		if both[i], err = Start(ctx, cfg); err != nil {
			t.Fatal(err)
		}
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
	if r, err := near.Shell(ctx, "echo out; echo err >&2; exit 7"); err != nil || r.Stdout != "out\n" || r.Stderr != "err\n" || r.Code != 7 {
		t.Fatalf("shell: %+v, %v", r, err)
	}
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
	if r, err := near.Run(short, "sleep", "1000"); err == nil {
		t.Fatalf("a program that was given up: %+v", r)
	}
	if r, err := near.Shell(ctx, "pgrep -x sleep"); err != nil || r.Code != 1 {
		t.Fatalf("it is still there: %+v, %v", r, err)
	}
}

// TestAMachineThatCannotStart tells what qemu said.
func TestAMachineThatCannotStart(t *testing.T) {
	if what := Missing(); what != "" {
		t.Skip(what)
	}
	_, err := Start(t.Context(), Config{Name: "none", Dir: t.TempDir(), Kernel: "/nonexistent"})
	must.Need(t, err != nil && strings.Contains(err.Error(), "/nonexistent"), "%v", err)
}
