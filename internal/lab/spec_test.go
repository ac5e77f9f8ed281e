package lab

import (
	"fmt"
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
	again, err := ParseSpec(text)
	must.True(t, err == nil && cmp.Equal(again, spec), "%v, %s", err, cmp.Diff(spec, again))
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
		"routers": {"hop2.silent,rate=1gbit,rtt=6ms,hops=3,loss=1%,hop2.rate=50mbit,to.hop1.delay=1ms,from.hop3.stage=100mbit,hop1.ecmp=2,hop2.mtu=1400,from.hop2.mtu=1300,hop3.icmp=2/s,hop1.icmp=unlimited,hop1.late=10ms,from.hop1.queue=64KiB", Spec{
			To:   wire.Path{Rate: 1e9, Delay: 3 * time.Millisecond, Queue: 875_000, Loss: 1},
			From: wire.Path{Rate: 1e9, Delay: 3 * time.Millisecond, Queue: 875_000, Loss: 1},
			MTU:  1500, Seed: 1, Hops: []Hop{
				{To: wire.Path{Delay: time.Millisecond}, From: wire.Path{Queue: 64 << 10}, ICMP: unlimited, Members: 2, Answers: wire.Answers{Late: 10 * time.Millisecond}},
				{To: wire.Path{Rate: 5e7, Queue: 256 << 10}, ToMTU: 1400, FromMTU: 1300, Answers: wire.Answers{Silent: true}},
				{From: wire.Path{Stage: 1e8, Queue: 256 << 10}, ICMP: 2},
			},
		}},
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
			must.NoDiff(t, cmp.Diff(tt.want, must.Get(ParseSpec(got.String()))(t)), "%s", got)
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
		"no routers":           {"hop2.rate=1mbit", []string{"there are no routers: give hops= as well"}},
		"no such router":       {"hops=3,hop4.rate=1mbit,hopx.rate=1mbit,hop0.silent", []string{"there is no router 4: hops=3 makes hop1 to hop3", "as in hop2.rate", "no router 0"}},
		"too many routers":     {"hops=9", []string{"hops=9: use a whole number from 0 to 8"}},
		"hop key one way":      {"from.hops=2", []string{"use hops="}},
		"router's keys": {"hops=2,from.hop1.silent,hop1.icmp=2,hop2.icmp=0/s,hop1.silent=no,hop1.mtu=100,hop1.ecmp=1,hop2.late=x,hop1.rtt=1ms,hop1.bus=1gbit,hop1.colour=red", []string{
			"from.hop1.silent: belongs to the router, not to a direction: use hop1.silent", "hop1.icmp=2: use a whole number from 1/s to 100/s, or unlimited",
			"hop2.icmp=0/s: use", "hop1.silent=no: write hop1.silent alone", "from 576", "from 2 to 4", "hop2.late=x: use a time", "use hop1.delay", "use bus=", "hop1.colour: unknown key: use rate"}},
		"router's key twice":   {"hops=1,hop1.rate=1mbit,to.hop1.rate=2mbit", []string{"hop1.rate is given twice"}},
		"router's same key":    {"hops=1,from.hop1.pathmtu=1400,from.hop1.blackhole=1300", []string{"from.hop1.pathmtu and from.hop1.blackhole are the same key"}},
		"router's queue":       {"hops=1,hop1.queue=64KiB", []string{"queue at hop1 has no effect without a rate"}},
		"router's small queue": {"hops=1,rate=1mbit,from.hop1.queue=1000", []string{"queue of 1000 bytes at from.hop1 holds no frame"}},
		"router's swing":       {"hops=1,hop1.rate=1mbit,hop1.swing=10%/1m,hop1.stage=1mbit,from.hop1.swing=10%/1m", []string{"swing at hop1 is of rate= alone", "swing at from.hop1 has no effect"}},
		"routers and a medium": {"rate=1mbit,duplex=half,hops=1,bus=1mbit,hop1.ecmp=2", []string{"leave out hops=", "hopK.stage=", "hop1.ecmp: this link ends at the far host", "give hops=2"}},
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
		for i := range rapid.IntRange(0, maxHops).Draw(t, "hops") {
			name := fmt.Sprint("hop", i)
			want.Hops = append(want.Hops, Hop{To: path(name), From: path("from " + name), ICMP: rapid.IntRange(unlimited, maxErrors).Draw(t, name+"icmp")})
		}
		must.NoDiff(t, cmp.Diff(want, must.Get(ParseSpec(want.String()))(t)), "%s", want)
	})
}

func FuzzParseSpec(f *testing.F) {
	for _, s := range []string{"", "lan", "wan,loss=1%", "rate=1gbit,rtt=10ms,near.x=1", "to.queue=64KiB,rate=1mbit", ",,=,near.=,to.=1", "lan,swing=10%/60s,to.swing=0.5%/100ms/99ms", "lan,hops=2,hop1.silent,from.hop2.mtu=1400,hop2.icmp=1/s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		spec.Knobs = nil // the user's raw text
		again, err := ParseSpec(spec.String())
		must.Dof(t, err, "ParseSpec(%q).String() = %q", text, spec)
		must.NoDiff(t, cmp.Diff(spec, again), "%q is not %q", text, spec)
	})
}

// TestAddresses: the ends of a link share a network and nothing else, and routers are between
// the hosts.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for hops, want := range map[int]string{0: "10.99.0.1 10.99.0.2 10.99.0.1 fd00:99::2", 3: "10.99.0.1 10.99.0.2 10.99.3.1 fd00:99:0:3::2"} {
		s := Spec{Hops: make([]Hop, hops)}
		near, far := s.hostEnd(model.Near), s.hostEnd(model.Far)
		must.Equal(t, fmt.Sprint(near.v4.Addr(), " ", s.peerEnd(model.Near).v4.Addr(), " ", s.peerEnd(model.Far).v4.Addr(), " ", far.v6.Addr()), want)
		must.True(t, near.mac.String() != far.mac.String() && lab4.Contains(far.v4.Addr()) && lab6.Contains(far.v6.Addr()), "%v, %v", near, far)
	}
}

// TestCables: the links share the settings of the whole path, and a link's own are added.
func TestCables(t *testing.T) {
	t.Parallel()
	spec := must.Get(ParseSpec("rate=1gbit,to.delay=10ms,queue=1MB,loss=1%,hops=2,hop1.rate=50mbit,hop1.queue=64KiB,hop1.ecmp=2,hop2.delay=5ms,from.hop1.jitter=2ms,hop2.late=3ms,hop1.silent"))(t)
	const third = 10 * time.Millisecond / 3
	late, silent := wire.Answers{Late: 3 * time.Millisecond}, wire.Answers{Silent: true}
	narrow := wire.Path{Rate: 5e7, Queue: 64 << 10, Delay: third}
	must.NoDiff(t, cmp.Diff([]cable{
		{at: 0, number: 0, to: wire.Path{Rate: 1e9, Queue: 1e6, Loss: 1, Delay: third}, from: wire.Path{Rate: 1e9, Queue: 1e6, Jitter: 2 * time.Millisecond}, back: silent},
		{at: 1, number: 1, to: narrow, from: wire.Path{Rate: 1e9, Queue: 1e6}, leave: silent, back: late},
		{at: 1, number: 104, to: narrow, leave: silent},
		{at: 2, number: 2, to: wire.Path{Rate: 1e9, Queue: 1e6, Delay: third + 1 + 5*time.Millisecond}, from: wire.Path{Rate: 1e9, Queue: 1e6, Loss: 1}, leave: late},
	}, spec.cables(), cmp.AllowUnexported(cable{})))
	plain := Spec{Hops: make([]Hop, 2)}.cables()
	must.True(t, plain[0].emulated(2) && !plain[1].emulated(2) && plain[2].emulated(2), "the links at the hosts alone count frames")
}

func TestSwing(t *testing.T) {
	t.Parallel()
	minute := wire.Swing{Share: 10, Period: time.Minute}
	for text, want := range map[string][2]wire.Swing{
		"rate=50mbit,swing=10%/60s":                              {minute, minute},
		"rate=50mbit,to.swing=10%/60s":                           {minute, {}},
		"lan,swing=10%/60s,from.swing=2.5%/100ms/99ms":           {minute, {Share: 2.5, Period: 100 * time.Millisecond, Lead: 99 * time.Millisecond}},
		"rate=50mbit,duplex=half,swing=90%/24h/1h":               {{Share: 90, Period: 24 * time.Hour, Lead: time.Hour}, {Share: 90, Period: 24 * time.Hour, Lead: time.Hour}},
		"to.rate=50mbit,from.rate=1mbit,from.swing=10%/1m0s/0s":  {{}, minute},
		"rate=50mbit,to.stage=20mbit,rtt=10ms,from.swing=10%/1m": {{}, minute},
	} {
		spec, err := ParseSpec(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		must.Equal(t, [2]wire.Swing{spec.To.Swing, spec.From.Swing}, want, "%s", text)
		again, err := ParseSpec(spec.String())
		must.True(t, err == nil && cmp.Equal(again, spec), "%s is not %s: %v, %s", text, spec, err, cmp.Diff(spec, again))
	}
}

func TestSwingMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"lan,swing=10%":                            "swing=10%: use a share up to 90% and a period from 100ms to 24h, for example 10%/60s",
		"lan,swing=0%/60s":                         "use a share up to 90%",
		"lan,swing=91%/60s":                        "use a share up to 90%",
		"lan,swing=NaN%/60s":                       "use a share up to 90%",
		"lan,swing=10%/99ms":                       "a period from 100ms",
		"lan,swing=10%/25h":                        "to 24h",
		"lan,to.swing=10%/60":                      "to.swing=10%/60: use a share",
		"lan,swing=10%/60s/60s":                    "use a time from 0s to less than 60s",
		"lan,swing=10%/60s/-1s":                    "use a time from 0s to less than 60s",
		"lan,swing=10%/60s/1s/1s":                  "use a share up to 90%",
		"rtt=1ms,swing=10%/60s":                    "swing in direction to has no effect without a rate: give rate= as well",
		"lan,to.stage=20mbit,swing=10%/60s":        "swing in direction to is of rate= alone: leave out stage=",
		"lan,from.police=20mbit,from.swing=9%/60s": "swing in direction from is of rate= alone: leave out police=",
		"lan,bus=20mbit,to.swing=10%/60s":          "swing in direction to is of rate= alone: leave out bus=",
		"lan,duplex=half,to.swing=10%/60s":         "one medium has one swing",
		"lan,swin=10%/60s":                         "swin: unknown key: use rate, rtt, delay, jitter, loss, reorder, dup, queue, swing",
	} {
		must.Say(t, must.Err(ParseSpec(text)), want, "%s", text)
	}
}

// TestRates: for a rate that swings a host gets the mean, marked as such.
func TestRates(t *testing.T) {
	t.Parallel()
	spec := must.Get(ParseSpec("to.rate=50mbit,to.swing=10%/60s/15s"))(t)
	rates := spec.Rates()
	if r, known := rates[0].Get(); !known || r != 50e6 || rates[0].Source() != "the lab's wire, the mean of a rate that swings by 10%/1m0s/15s" {
		t.Errorf("%v from %q", r, rates[0].Source())
	}
	must.True(t, !rates[1].IsKnown() && rates[1].Reason() == "the lab's wire has no rate limit", "a wire without a limit: %+v", rates[1])
	spec.To.Swing = wire.Swing{}
	must.Equal(t, spec.Rates()[0].Source(), "the lab's wire", "a steady rate is of")
}
