//go:build vm

package machine

import (
	"bufio"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestNewKernel: on the newer kernel of make vm, whose TCP_INFO, softnet_stat and settings
// differ, linerate's values agree with sysctl, ss and the counters of the card, and a group of
// settings holds and is undone.
func TestNewKernel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	cards := [][2]string{{"virtio-net-pci", "virtio_net"}}
	hosts := startKernel(ctx, t, "new", false, cards, "near", "far")
	p := pair{near: hosts[0], far: hosts[1], cards: cards}
	name := names(ctx, t, p.near, 0, cards)[0]
	names(ctx, t, p.far, 1, cards)
	version := must.Get(os.ReadFile(filepath.Join(Images(), "version-new")))(t)
	got := sh(ctx, t, p.near, "uname -r")
	must.Need(t, got == string(version), "the kernel is %s, not %s", got, version)
	t.Log("kernel ", strings.TrimSpace(string(version)))
	t.Run("knobs", func(t *testing.T) { sameAsSysctl(ctx, t, p.near) })
	t.Run("limits", func(t *testing.T) {
		const ask = "linerate limits --rate 1gbit --mtu 1500 --rtt 10ms --window 64KiB"
		text := sh(ctx, t, p.near, ask)
		must.True(t, strings.Contains(text, "941.48 Mbit/s") && strings.Contains(text, "52.43 Mbit/s"), "%s:\n%s", ask, text)
	})
	t.Run("test", func(t *testing.T) { sameAsSocketStatistics(ctx, t, p, name) })
	t.Run("settings", func(t *testing.T) {
		for _, one := range trials(sh(ctx, t, p.near, referees+"snap "+name+" | tee /tmp/b"))[:2] {
			must.Equal(t, try(ctx, t, p.near, name, one), yes, "%v", one.settings)
		}
	})
}

// sameAsSysctl compares each value that linerate reads from a sysctl with sysctl's output. For
// tcp_rmem and the like a setting is one of three numbers.
func sameAsSysctl(ctx context.Context, t *testing.T, m *Machine) {
	t.Helper()
	var page struct {
		Knobs []struct {
			Knob, Native string
			Value        struct{ Value, Source string }
		}
	}
	must.Do(t, json.Unmarshal([]byte(sh(ctx, t, m, "linerate knobs --json -q --timeout 60s")), &page))
	all := map[string][]string{}
	for line := range strings.Lines(sh(ctx, t, m, "sysctl -a 2> /dev/null")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			all[key] = strings.Fields(value)
		}
	}
	held := 0
	for _, k := range page.Knobs {
		words := all[k.Native]
		if len(words) == 0 || k.Value.Value == "" {
			continue
		}
		held++
		if strings.Contains(k.Native, "no_") { // an inverted sysctl
			words = []string{map[string]string{"0": "1", "1": "0"}[words[0]]}
		}
		found := strings.Join(words, " ") == k.Value.Value
		for _, w := range words {
			found = found || w == k.Value.Value
		}
		must.True(t, found, "%s: %q, and sysctl says of %s %q", k.Knob, k.Value.Value, k.Native, words)
	}
	must.True(t, held >= 40, "%d settings held against sysctl, of %d", held, len(page.Knobs))
	t.Logf("%d of %d settings are what sysctl says", held, len(page.Knobs))
}

// sameAsSocketStatistics runs a test while ss reads its connection every 0.2 s, and compares
// linerate's samples with that: both read TCP_INFO, and ss decodes it itself.
func sameAsSocketStatistics(ctx context.Context, t *testing.T, p pair, name string) {
	t.Helper()
	server := p.far.Start(ctx, "linerate", "serve", "--open")
	const watch = `rm -f /tmp/ss; linerate test 10.0.0.2 -t 6s --to --idle 0s -q --timeout 60s > /tmp/o 2>&1 & p=$!
while kill -0 $p 2> /dev/null; do ss -tinOH dst 10.0.0.2 >> /tmp/ss; sleep 0.2; done; wait $p; echo rc=$?; cat /tmp/o`
	before := sh(ctx, t, p.near, "cat /sys/class/net/"+name+"/statistics/tx_bytes")
	said := sh(ctx, t, p.near, watch)
	after := sh(ctx, t, p.near, "cat /sys/class/net/"+name+"/statistics/tx_bytes")
	if !strings.Contains(said, "rc=0") {
		t.Fatalf("%s\n%s", said, server.Printed())
	}
	var d struct {
		Session *model.Session
		Samples []struct{ Samples []model.Sample }
	}
	text := sh(ctx, t, p.near, "linerate show last --json=full --samples")
	err := json.Unmarshal([]byte(text), &d)
	must.Need(t, err == nil && d.Session != nil && len(d.Session.Runs) != 0, "%v: %s", err, text)
	least, most := map[model.Metric]float64{}, map[model.Metric]float64{}
	for _, r := range d.Samples {
		for _, s := range r.Samples {
			if low, ok := least[s.Metric]; !ok || s.Value < low {
				least[s.Metric] = s.Value
			}
			most[s.Metric] = max(most[s.Metric], s.Value)
		}
	}
	loaded := busiest(sh(ctx, t, p.near, "cat /tmp/ss"))
	t.Logf("linerate: %v to %v\nss, while it carried most: %v", least, most, loaded)
	goodput, _ := d.Session.Runs[0].Value(model.To, model.Goodput)
	flowed := numeric(after) - numeric(before)
	must.True(t, !(goodput <= 0) && !(flowed < goodput/8*4), "%.0f bit/s for six seconds, and the card sent %.0f bytes", goodput, flowed)
	for metric, key := range map[model.Metric]string{model.RTT: "rtt", model.RTTMin: "minrtt", model.PeerWindow: "snd_wnd", model.Cwnd: "cwnd"} {
		seen, there := loaded[key], len(loaded) > 0
		low, high := least[metric], most[metric]
		// ss reads at other moments: its values lie between the minimum and the maximum, or a
		// little beyond.
		must.True(t, there && seen != 0 && high != 0 && seen >= low/2 && seen <= 2*high, "%s: linerate %g to %g, ss %g", metric, low, high, seen)
	}
}

func numeric(text string) float64 {
	n, _ := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return n
}

// busiest returns what ss printed of the connection that sent most, when it had sent about
// half, in the units of model. A line is
//
//	ESTAB 0 463360 10.0.0.1:40326 10.0.0.2:5299 cubic wscale:7,7 rto:204 rtt:1.5/0.2 mss:1448 cwnd:52 bytes_sent:1500 minrtt:0.3 snd_wnd:64256
func busiest(text string) map[string]float64 {
	value := regexp.MustCompile(`(rtt|minrtt|mss|cwnd|bytes_sent|snd_wnd):(\d+(?:\.\d+)?)`)
	var all []map[string]float64
	most := 0.0
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		one := map[string]float64{}
		for _, m := range value.FindAllStringSubmatch(lines.Text(), -1) {
			one[m[1]] = numeric(m[2])
		}
		one["rtt"], one["minrtt"], one["cwnd"] = one["rtt"]/1e3, one["minrtt"]/1e3, one["cwnd"]*one["mss"]
		most = max(most, one["bytes_sent"])
		all = append(all, one)
	}
	for _, one := range all {
		if one["bytes_sent"] >= most/2 {
			return one
		}
	}
	return nil
}

// needs skips t if what a machine needs is missing, and names it.
func needs(t *testing.T, missing string) {
	t.Helper()
	must.SkipIf(t, missing != "", "%s", missing)
}

// short returns a folder whose path is short, for sockets.
func short(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "vm"))(t) //nolint:usetesting // the path of t.TempDir is too long for a socket
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// bsd boots a FreeBSD with cards, or skips and names what is missing.
func bsd(ctx context.Context, t *testing.T, name, dir string, address, files map[string]string, more string, cards ...Card) *Machine {
	t.Helper()
	needs(t, MissingFreeBSD())
	cfg := must.Get(FreeBSD(ctx, name, dir, address, files))(t)
	cfg.Cards = cards
	cfg.Append += " " + more
	m := must.Get(Start(ctx, cfg))(t)
	t.Cleanup(m.Close)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console of %s: %s", name, last(m.Console(), 3000))
		}
	})
	return m
}

// do runs a program, which must succeed, and returns its output.
func do(ctx context.Context, t *testing.T, m *Machine, args ...string) string {
	t.Helper()
	r := must.Get(m.Run(ctx, args...))(t)
	must.Need(t, r.Code == 0, "%q: code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	return r.Stdout
}

// TestFreeBSDSettings runs in FreeBSD the tests that set every setting of the catalogue that
// its kernel has, and restore it; and the tests of packages with code for FreeBSD. Each is a
// test binary, built here.
func TestFreeBSDSettings(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	needs(t, MissingFreeBSD())
	told(t, "every setting")
	dir := short(t)
	files := map[string]string{}
	packages := []string{
		"internal/host/knob", "internal/host/knob/sysctl", "internal/host/knob/ifioctl", "internal/host/counters", "internal/host/kmsg", "internal/host/kenv", "internal/host/journal",
		"internal/measure/hops", "internal/measure/tcpinfo", "internal/measure/sockio", "internal/measure/plane",
	}
	for _, p := range packages {
		files["t/"+p+"/test"] = must.Get(BuildTests(ctx, "freebsd", dir, p))(t)
		must.Do(t, tree(files, "../../../"+p+"/testdata", "t/"+p+"/testdata"))
	}
	m := bsd(ctx, t, "settings", dir, map[string]string{"em0": "10.0.0.9/24"}, files, "", Card{Model: "e1000", MAC: "52:54:00:00:00:09"})
	must.Do(t, m.Wait(ctx))
	for _, p := range packages {
		t.Run(p, func(t *testing.T) {
			args := []string{"in", "/t/" + p, "./test", "-test.short", "-test.timeout=4m"}
			if p == "internal/host/knob" {
				args = append(args, "-test.v", "-test.run=TestEverySetting|TestPause")
			}
			if p == "internal/measure/plane" {
				args = append(args, "-test.skip=TestExchangeNeverDeadlocks") // its 10 s are too short in emulation
			}
			if p == "internal/host/journal" {
				args = append(args, "-test.run=TestOrigin") // the others need no kernel
			}
			if p == "internal/host/counters" {
				args = append(args, "-test.skip=TestDocument") // it reads the tree's docs
			}
			r, err := m.Run(ctx, append([]string{"env", "LINERATE_MACHINE=em0"}, args...)...)
			must.Need(t, err == nil && r.Code == 0, "code %d, %v\n%s%s", r.Code, err, last(r.Stdout, 8000), last(r.Stderr, 2000))
			t.Log(r.Stdout)
		})
	}
}

// tree adds the files below from to files, with paths below to.
func tree(files map[string]string, from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return nil //nolint:nilerr // no testdata
	}
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[to+strings.TrimPrefix(path, from)] = path
		}
		return err
	})
}
