//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

// peeked is a variable as the program peek of FreeBSD tells it, by calls of its own.
type peeked struct {
	Number *int64
	Text   string
	Error  string
}

func number(ctx context.Context, t *testing.T, m *Machine, name string) int64 {
	t.Helper()
	var all map[string]peeked
	if err := json.Unmarshal([]byte(do(ctx, t, m, "peek", "sysctl", name)), &all); err != nil {
		t.Fatal(err)
	}
	if all[name].Number == nil {
		t.Fatalf("%s: %+v", name, all[name])
	}
	return *all[name].Number
}

// TestFreeBSDAgainstLinux joins a FreeBSD and a Debian: a first look in both
// directions, a setting under a deadline, a kept one, the window story of the seed
// article, and an experiment, all of them judged by what the two kernels say.
func TestFreeBSDAgainstLinux(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Minute)
	defer cancel()
	dir := short(t)
	if what := MissingFreeBSD(); what != "" {
		t.Skip(what)
	}
	beastly, err := BuildLinerate(ctx, "freebsd", dir)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := BuildGuest(ctx, "linux", dir)
	if err != nil {
		t.Fatal(err)
	}
	penguin, err := BuildLinerate(ctx, "linux", dir)
	if err != nil {
		t.Fatal(err)
	}
	programs, err := Programs(dir, guest, penguin)
	if err != nil {
		t.Fatal(err)
	}
	cable := NewCable(dir, "wire")
	cfg := Debian("far", dir, "6.1", false, programs)
	if what := Missing(cfg.Needs()...); what != "" {
		t.Skip(what)
	}
	cfg.Cards = []Card{{Model: "e1000", MAC: "52:54:00:00:00:02", Cable: cable}}
	far, err := Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	near := bsd(ctx, t, "near", dir, map[string]string{"em0": "10.0.0.1/24"}, map[string]string{"bin/linerate": beastly}, "",
		Card{Model: "e1000", MAC: "52:54:00:00:00:01", Cable: cable})
	for _, m := range []*Machine{far, near} {
		if err := m.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(t *testing.T, text string) {
		t.Helper()
		if r, err := far.Shell(ctx, text); err != nil || r.Code != 0 {
			t.Fatalf("%s: %+v, %v", text, r, err)
		}
	}
	sh(t, "ip addr add 10.0.0.2/24 dev eth0 && ip link set eth0 up && sysctl -qw net.core.rmem_max=8388608 net.core.wmem_max=8388608")
	server := far.Start(ctx, "linerate", "serve", "--open", "--announce=false")
	t.Run("look", func(t *testing.T) { firstLook(ctx, t, near, server) })
	t.Run("set", func(t *testing.T) { setForAWhile(ctx, t, near) })
	t.Run("keep", func(t *testing.T) { keepAndBack(ctx, t, near) })
	t.Run("windows", func(t *testing.T) {
		sh(t, "tc qdisc replace dev eth0 root netem delay 100ms limit 20000")
		windowStory(ctx, t, near)
	})
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
		if !strings.Contains(out, want) {
			t.Errorf("what test tells has no %s", want)
		}
	}
}

// setForAWhile: a change holds in the kernel until its deadline, and is gone after it.
func setForAWhile(ctx context.Context, t *testing.T, near *Machine) {
	const sack, most = "net.inet.tcp.sack.enable", "net.inet.tcp.recvbuf_max"
	if n := number(ctx, t, near, sack); n != 1 {
		t.Fatalf("%s is %d at first", sack, n)
	}
	p := near.Start(ctx, "linerate", "set", "tcp.sack=off", "tcp.recv_buffer_max=1MiB", "--for", "30s", "--at-boot")
	held, job := false, false
	for range 60 {
		if number(ctx, t, near, sack) == 0 && number(ctx, t, near, most) == 1<<20 {
			held = true
			_, err := near.Get(ctx, "/usr/local/etc/rc.d/linerate_undo")
			job = err == nil
			break
		}
		time.Sleep(time.Second)
	}
	r, err := p.Wait()
	if !held {
		t.Fatalf("never held in the kernel: code %d, %v\n%s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	if !job {
		t.Error("no job for the next start in rc.d while the change was open")
	}
	for range 60 {
		if number(ctx, t, near, sack) == 1 && number(ctx, t, near, most) == 2<<20 {
			return
		}
		time.Sleep(time.Second)
	}
	t.Errorf("not undone: %s", do(ctx, t, near, "peek", "sysctl", sack, most))
}

// keepAndBack: what is kept stands in sysctl.conf, and undo takes it out again.
func keepAndBack(ctx context.Context, t *testing.T, near *Machine) {
	profile := "profile: 2\ntitle: window\nhosts:\n  - role: both\n    system: freebsd\n    knobs:\n      tcp.recv_buffer_max: 1MiB\n"
	if err := near.Put(ctx, "/tmp/tall.yaml", []byte(profile), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(do(ctx, t, near, "linerate", "keep", "/tmp/tall.yaml", "--interface", "em0", "--yes"))
	text, err := near.Get(ctx, "/etc/sysctl.conf")
	if err != nil || !strings.Contains(string(text), "net.inet.tcp.recvbuf_max=1048576") {
		t.Errorf("sysctl.conf: %q, %v", text, err)
	}
	t.Log(do(ctx, t, near, "linerate", "undo", "--kept"))
	if text, err := near.Get(ctx, "/etc/sysctl.conf"); err == nil && strings.Contains(string(text), "recvbuf_max") {
		t.Errorf("sysctl.conf after undo --kept: %q", text)
	}
	if n := number(ctx, t, near, "net.inet.tcp.recvbuf_max"); n != 2<<20 {
		t.Errorf("recvbuf_max is %d after undo --kept", n)
	}
}

// windowStory: over a path of 100 ms, windows from 64 KiB to 1536 KiB, set for the
// sockets of the test as the article did, carry what window and round trip allow, until
// the machine itself is the limit.
func windowStory(ctx context.Context, t *testing.T, near *Machine) {
	// FreeBSD remembers for an hour what losses of earlier connections taught it
	// (tcp.hostcache): each window would begin with the slow start of the one before.
	const cache = "net.inet.tcp.hostcache.enable"
	p := near.Start(ctx, "linerate", "set", "tcp.metrics_cache=off", "--for", "4m")
	for i := 0; number(ctx, t, near, cache) != 0; i++ {
		if i == 30 {
			t.Fatalf("%s is still on: %s", cache, p.Printed())
		}
		time.Sleep(time.Second)
	}
	var before float64
	for _, kib := range []int{64, 128, 512, 1024, 1536} {
		out := do(ctx, t, near, "linerate", "test", "10.0.0.2", "--to", "-t", "4s", "--omit", "2s", "--idle", "0s",
			"-w", strconv.Itoa(kib)+"KiB", "--json")
		rate := goodput(t, out)
		most := float64(kib) * 1024 * 8 / 0.1
		t.Logf("%5d KiB: %6.2f Mbit/s of %6.2f that the window allows", kib, rate/1e6, most/1e6)
		if rate > most*1.1 {
			t.Errorf("%d KiB: %.0f bit/s, above what window and round trip allow", kib, rate)
		}
		if kib <= 128 && rate < most*0.5 {
			t.Errorf("%d KiB: %.0f bit/s, far below what the window allows", kib, rate)
		}
		if rate < before*0.7 {
			t.Errorf("%d KiB: %.0f bit/s, less than with half the window: %.0f", kib, rate, before)
		}
		before = rate
	}
}

// goodput finds the first number called goodput in a document.
func goodput(t *testing.T, document string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(document, `"goodput":`)
	if !ok {
		t.Fatalf("no goodput in %s", document[:min(len(document), 3000)])
	}
	end := strings.IndexAny(rest, ",}\n")
	n, err := strconv.ParseFloat(strings.TrimSpace(rest[:end]), 64)
	if err != nil {
		t.Fatalf("goodput %q: %v", rest[:end], err)
	}
	return n
}
