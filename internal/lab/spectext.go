package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
)

// Keys describes every key of a spec in one line each, for help texts.
func Keys() []string {
	return []string{
		"rate=100mbit     rate of the link with all framing; left out: unlimited",
		"swing=10%/60s    the rate goes up and down by that, as a sine of that period does;",
		"                 /15s more: begins so far into it",
		"rtt=10ms         round trip time, half of it each way",
		"delay=5ms        one way",
		"jitter=1ms       extra delay, uniform from 0 to this, order kept",
		"loss=0.1%        of frames, independent",
		"reorder=1%       of frames, each overtaken by the next 3",
		"dup=1%           of frames, delivered twice",
		"queue=256KiB     bytes that may wait for the link; left out: rate x rtt, at least 256 KiB",
		"stage=50mbit     a slower link on the way, which no host knows of",
		"police=50mbit    what comes faster is dropped",
		"pathmtu=1400     longer IP packets vanish silently; blackhole= is the same",
		"mtu=1500         of both interfaces (whole lab only)",
		"duplex=half      one medium for both directions (whole lab only)",
		"bus=1gbit        frames of both directions share a bus of this rate (whole lab only)",
		"seed=1           of all random choices (whole lab only)",
		"to.KEY           to the far host only, as in to.rate=50mbit",
		"from.KEY         from the far host only",
		"near.shape=5mbit a shaper at the interface of the near host",
		"far.shape=5mbit  a shaper at the interface of the far host",
		"far.cpu.quota=20%",
		"                 most CPU time of the programs in the far host; 100% is one CPU",
		"near.cpu.quota=  the same in the near host",
		"hops=3           routers between the hosts (whole lab only): every link has rate=",
		"                 and queue=, all links share a delay, the first one has the rest",
		"hopK.KEY         the link that leaves router K for the far host, as in hop2.rate=50mbit",
		"from.hopK.KEY    the link that leaves router K for the near host",
		"hopK.mtu=1400    longer packets are refused there: fragmentation needed",
		"hopK.silent      router K sends no ICMP errors",
		"hopK.late=10ms   extra delay of the ICMP errors of router K, uniform from 0 to this",
		"hopK.icmp=1/s    most ICMP errors of router K to one address, or unlimited; left out:",
		"                 as its kernel does",
		"hopK.ecmp=2      the link is a bundle of so many, chosen by addresses and ports",
		"near.KNOB        a setting of the near host, as in near.tcp.sack=off",
		"far.KNOB         a setting of the far host",
	}
}

// String returns the spec as text that ParseSpec parses to the same spec.
func (s Spec) String() string {
	var items []string
	add := func(format string, args ...any) { items = append(items, fmt.Sprintf(format, args...)) }
	if n := len(s.Hops); n > 0 {
		add("hops=%d", n)
	}
	for _, w := range s.ways() {
		items = append(items, pathItems(w.prefix, *w.path)...)
	}
	for i, h := range s.Hops {
		items = append(items, h.items(fmt.Sprintf("%s%d.", hopPrefix, i+1))...)
	}
	if s.HalfDuplex {
		add("duplex=half")
	}
	if s.Bus > 0 {
		add("bus=%sbit", plainRate(s.Bus))
	}
	add("mtu=%d", s.MTU)
	add("seed=%d", s.Seed)
	if s.ShapeNear > 0 {
		add("%s=%sbit", model.Near.Of(shapeKey), plainRate(s.ShapeNear))
	}
	if s.ShapeFar > 0 {
		add("%s=%sbit", model.Far.Of(shapeKey), plainRate(s.ShapeFar))
	}
	if s.QuotaNear > 0 {
		add("%s=%s%%", model.Near.Of(quotaKey), plainShare(s.QuotaNear))
	}
	if s.QuotaFar > 0 {
		add("%s=%s%%", model.Far.Of(quotaKey), plainShare(s.QuotaFar))
	}
	for _, k := range s.Knobs {
		add("%s=%s", k.Host.Of(k.Knob), k.Value)
	}
	return strings.Join(items, ",")
}

// pathItems returns the keys of one direction.
func pathItems(prefix string, path wire.Path) (items []string) {
	add := func(key, format string, value any) { items = append(items, prefix+key+"="+fmt.Sprintf(format, value)) }
	rate := func(key string, r units.BitRate) {
		if r > 0 {
			add(key, "%sbit", plainRate(r))
		}
	}
	share := func(key string, v units.Percent) {
		if v > 0 {
			add(key, "%s%%", plainShare(v))
		}
	}
	delay := func(key string, d time.Duration) {
		if d > 0 {
			add(key, "%s", d)
		}
	}
	rate("rate", path.Rate)
	if path.Swing.Share > 0 {
		add("swing", "%s", path.Swing)
	}
	if path.Queue > 0 {
		add("queue", "%d", path.Queue)
	}
	delay("delay", path.Delay)
	delay("jitter", path.Jitter)
	share("loss", path.Loss)
	share("reorder", path.Reorder)
	share("dup", path.Duplicate)
	rate("stage", path.Stage)
	rate("police", path.Police)
	if path.PathMTU > 0 {
		add("pathmtu", "%d", path.PathMTU)
	}
	return items
}

// items returns the keys of the router itself.
func (h Hop) items(prefix string) (items []string) {
	add := func(ok bool, format string, args ...any) {
		if ok {
			items = append(items, fmt.Sprintf(format, args...))
		}
	}
	add(h.ToMTU > 0, "%smtu=%d", prefix, h.ToMTU)
	add(h.FromMTU > 0, "%s%smtu=%d", fromPrefix, prefix, h.FromMTU)
	add(h.Answers.Silent, "%ssilent", prefix)
	add(h.Answers.Late > 0, "%slate=%s", prefix, h.Answers.Late)
	add(h.ICMP > 0, "%sicmp=%d/s", prefix, h.ICMP)
	add(h.ICMP == unlimited, "%sicmp=unlimited", prefix)
	add(h.Members > 0, "%secmp=%d", prefix, h.Members)
	return items
}

// plainRate formats a rate for ParseSpec, without a unit.
func plainRate(r units.BitRate) string { return strconv.FormatFloat(float64(r), 'f', -1, 64) }

func plainShare(v units.Percent) string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }
