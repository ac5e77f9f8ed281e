package lab

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
	"linerate/internal/must"
)

func TestFirstHour19LabsSayNearAndFar(t *testing.T) {
	spec := must.Get(ParseSpec("rate=1gbit,rtt=10ms,to.rate=5mbit,from.loss=1%,near.tcp.sack=0,far.tcp.recv_buffer_max=64KiB,near.cpu.quota=150%"))(t)
	text := spec.String()
	for _, want := range []string{"to.rate=5000000bit", "from.loss=1%", "near.tcp.sack=0", "far.tcp.recv_buffer_max=64KiB", "near.cpu.quota=150%"} {
		must.Contain(t, text, want)
	}
	if again, err := ParseSpec(text); err != nil || !cmp.Equal(again, spec) {
		t.Errorf("%v, %s", err, cmp.Diff(spec, again))
	}
	for text, want := range map[string]string{
		"to.rate=1mbit,to.rate=2mbit": "to.rate is given twice", "to.rtt=1ms": "use to.delay", "far.=1": "far.=1 names no knob",
		"ab.rate=1mbit": "use to., from. (one direction of the wire), near. or far.", "a.x=1": "use to., from.",
	} {
		must.Say(t, must.Err(ParseSpec(text)), want, "%s", text)
	}
}

func TestParseSpec(t *testing.T) {
	t.Parallel()
	lan := wire.Path{Rate: 1e9, Delay: 100 * time.Microsecond, Queue: 256 << 10}
	tests := map[string]struct {
		text string
		want Spec
	}{
		"empty is lan": {"", Spec{To: lan, From: lan, MTU: 1500, Seed: 1}},
		"preset":       {"lan", Spec{To: lan, From: lan, MTU: 1500, Seed: 1}},
		"preset and key": {"lan,loss=1%", Spec{
			To:   wire.Path{Rate: 1e9, Delay: 100 * time.Microsecond, Queue: 256 << 10, Loss: 1},
			From: wire.Path{Rate: 1e9, Delay: 100 * time.Microsecond, Queue: 256 << 10, Loss: 1},
			MTU:  1500, Seed: 1,
		}},
		"every key": {"rate=100mbit,delay=3ms,jitter=1ms,loss=0.01%,reorder=2%,dup=3%,queue=64KiB,pathmtu=1400,mtu=9000,seed=7,duplex=half,bus=80mbit", Spec{
			To: wire.Path{Rate: 1e8, Delay: 3 * time.Millisecond, Jitter: time.Millisecond, Loss: 0.01,
				Reorder: 2, Duplicate: 3, Queue: 64 << 10, PathMTU: 1400},
			From: wire.Path{Rate: 1e8, Delay: 3 * time.Millisecond, Jitter: time.Millisecond, Loss: 0.01,
				Reorder: 2, Duplicate: 3, Queue: 64 << 10, PathMTU: 1400},
			MTU: 9000, Seed: 7, HalfDuplex: true, Bus: 8e7,
		}},
		"slower than it says": {"rate=100mbit,rtt=2ms,to.stage=50mbit,from.police=10mbit,near.shape=5mbit,far.shape=6mbit,near.cpu.quota=20%,far.cpu.quota=2.5%", Spec{
			To:   wire.Path{Rate: 1e8, Delay: time.Millisecond, Queue: 256 << 10, Stage: 5e7},
			From: wire.Path{Rate: 1e8, Delay: time.Millisecond, Queue: 256 << 10, Police: 1e7},
			MTU:  1500, Seed: 1, ShapeNear: 5e6, ShapeFar: 6e6, QuotaNear: 20, QuotaFar: 2.5,
		}},
		"one direction wins wherever it stands": {"to.delay=8ms,rtt=4ms", Spec{
			To: wire.Path{Delay: 8 * time.Millisecond}, From: wire.Path{Delay: 2 * time.Millisecond}, MTU: 1500, Seed: 1,
		}},
		"knobs": {"rtt=0s,far.tcp.recv_buffer_max=64KiB,near.x=1", Spec{MTU: 1500, Seed: 1, Knobs: []model.Assignment{
			{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "64KiB"}, {Host: model.Near, Knob: "x", Value: "1"},
		}}},
		"default queue is a round trip": {"rate=1gbit,to.delay=10ms,from.delay=30ms", Spec{
			To:   wire.Path{Rate: 1e9, Delay: 10 * time.Millisecond, Queue: 5e6},
			From: wire.Path{Rate: 1e9, Delay: 30 * time.Millisecond, Queue: 5e6},
			MTU:  1500, Seed: 1,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := must.Get(ParseSpec(tt.text))(t)
			must.NoDiff(t, cmp.Diff(tt.want, got), "ParseSpec(%q)", tt.text)
		})
	}
}

func TestParseSpecMistakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string // parts of the error
	}{
		"all at once": {"rate=fast,rtt=10,loss=101%,mtu=100", []string{
			"rate=fast: use a rate", "rtt=10: use a time", "loss=101%: use a share", "mtu=100: use a whole number from 576"}},
		"unknown preset":       {"moon,rtt=1ms", []string{`"moon"`, "lan, wan, lossy or sat"}},
		"unknown key":          {"speed=1gbit", []string{"speed: unknown key: use rate"}},
		"unknown prefix":       {"c.mtu=1", []string{`prefix "c"`}},
		"round trip one way":   {"to.rtt=1ms", []string{"use to.delay"}},
		"lab key one way":      {"from.mtu=1400", []string{"use mtu="}},
		"twice":                {"rtt=1ms,rtt=2ms", []string{"given twice"}},
		"rtt and delay":        {"rtt=1ms,delay=2ms", []string{"give one of them"}},
		"same key, two names":  {"pathmtu=1400,blackhole=1300", []string{"same key"}},
		"no value":             {"rate=", []string{"not KEY=VALUE"}},
		"empty item":           {"rtt=1ms,,loss=1%", []string{"remove a comma"}},
		"no knob":              {"near.=1", []string{"names no knob"}},
		"queue below a frame":  {"rate=1mbit,queue=1000", []string{"holds no frame: use at least 1514"}},
		"queue without a rate": {"queue=64KiB", []string{"give rate="}},
		"half duplex":          {"duplex=half,to.rate=1mbit", []string{"one medium has one rate"}},
		"duplex word":          {"duplex=both", []string{"use half or full"}},
		"quota":                {"far.cpu.quota=0.5%,near.cpu.quota=all", []string{"far.cpu.quota=0.5%: use a share of one CPU", "near.cpu.quota=all: use a share"}},
		"seed":                 {"seed=-1", []string{"use a whole number from 0"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := ParseSpec(tt.text)
			must.Need(t, err != nil, "ParseSpec(%q) = %+v without an error", tt.text, spec)
			for _, part := range tt.want {
				must.Contain(t, err.Error(), part)
			}
		})
	}
}

func TestSpecStringRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		path := func(name string) wire.Path {
			share := rapid.Float64Range(0, 100)
			p := wire.Path{
				Delay:  time.Duration(rapid.Int64Range(0, int64(maxDelay)).Draw(t, name+"delay")),
				Jitter: time.Duration(rapid.Int64Range(0, int64(maxDelay)).Draw(t, name+"jitter")),
				Loss:   units.Percent(share.Draw(t, name+"loss")), Reorder: units.Percent(share.Draw(t, name+"reorder")),
				Duplicate: units.Percent(share.Draw(t, name+"dup")),
			}
			if rapid.Bool().Draw(t, name+"limited") {
				p.Rate = units.BitRate(rapid.IntRange(1000, 1e12).Draw(t, name+"rate"))
				p.Queue = units.Bytes(rapid.Int64Range(9014, 1<<40).Draw(t, name+"queue"))
			}
			return p
		}
		want := Spec{
			To: path("to"), From: path("from"), MTU: rapid.IntRange(minMTU, 9000).Draw(t, "mtu"), Seed: rapid.Uint64().Draw(t, "seed"),
			Knobs: []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}}, QuotaFar: units.Percent(rapid.Float64Range(1, 1e5).Draw(t, "quota")),
		}
		got := must.Get(ParseSpec(want.String()))(t)
		must.NoDiff(t, cmp.Diff(want, got), "%s", want)
	})
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"", "lan", "wan,loss=1%", "rate=1gbit,rtt=10ms,near.x=1", "to.queue=64KiB,rate=1mbit", ",,=,near.=,to.=1", "lan,swing=10%/60s,to.swing=0.5%/100ms/99ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		spec.Knobs = nil // raw text of the user
		again, err := ParseSpec(spec.String())
		must.Dof(t, err, "ParseSpec(%q).String() = %q", text, spec)
		must.NoDiff(t, cmp.Diff(spec, again), "%q is not %q", text, spec)
	})
}

func TestAddressesDiffer(t *testing.T) {
	t.Parallel()
	a, b := plan(model.Near), plan(model.Far)
	must.True(t, a.v4 != b.v4 && a.v6 != b.v6 && a.mac.String() != b.mac.String(), "hosts share an address: %v, %v", a, b)
	must.True(t, a.v4.Contains(b.v4.Addr()) && a.v6.Contains(b.v6.Addr()), "hosts are in different networks: %v, %v", a, b)
	must.Equal(t, other(model.Near), model.Far, "other(a)")
}
