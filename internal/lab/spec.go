package lab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
)

// Limits of a spec. The minimum MTU is what every IPv4 host must accept (RFC 791 section 3.1);
// the maximum is what a TAP device accepts (drivers/net/tun.c, 65535 minus the Ethernet
// header).
const (
	minMTU     = 576
	maxMTU     = 65521
	defaultMTU = 1500
	minQueue   = 256 * 1024
	maxDelay   = 10 * time.Second
)

// Spec describes a lab.
type Spec struct {
	To         wire.Path          `json:"to"`                    // the wire from the near host to the far one
	From       wire.Path          `json:"from"`                  // and back
	HalfDuplex bool               `json:"half_duplex,omitempty"` // both directions share the medium
	Bus        units.BitRate      `json:"bus,omitempty"`         // of frames of both directions together, before the link; 0 is unlimited
	MTU        int                `json:"mtu"`                   // of both hosts' interfaces, IP bytes
	Seed       uint64             `json:"seed"`                  // of every random choice of the wire
	Knobs      []model.Assignment `json:"knobs,omitempty"`       // of the hosts, raw text, not validated
	ShapeNear  units.BitRate      `json:"shape_near,omitempty"`  // of a shaper at the interface of the near host; 0: no shaper
	ShapeFar   units.BitRate      `json:"shape_far,omitempty"`   // and of the far host
	QuotaNear  units.Percent      `json:"quota_near,omitempty"`  // of one CPU, for the programs of the near host; 0: no limit
	QuotaFar   units.Percent      `json:"quota_far,omitempty"`   // and of the far host
	Hops       []Hop              `json:"hops,omitempty"`        // the routers on the path, from the near host on
}

// preset returns the keys of a preset.
func preset(name string) (keys string, ok bool) {
	switch name {
	case "lan":
		return "rate=1gbit,rtt=200us", true
	case "wan":
		return "rate=100mbit,rtt=40ms", true
	case "lossy":
		return "rate=100mbit,rtt=20ms,loss=0.1%", true
	case "sat":
		return "to.rate=5mbit,from.rate=50mbit,rtt=600ms,loss=0.01%", true
	}
	return "", false
}

// ParseSpec parses the text of a lab target after "lab:", for example
// "rate=1gbit,rtt=10ms,loss=0.01%,to.queue=64KiB,far.tcp.recv_buffer_max=64KiB". The first item
// may be a preset: lan, wan, lossy or sat; empty text is lan. A key for one direction overrides
// the same key for both, in any order. All mistakes are reported at once, each with the right
// form.
func ParseSpec(text string) (Spec, error) {
	p := parser{seen: map[string]bool{}, queue: map[*wire.Path]bool{}}
	p.spec = Spec{MTU: defaultMTU, Seed: 1}
	items := strings.Split(strings.TrimSpace(text), ",")
	if first := strings.TrimSpace(items[0]); !strings.Contains(first, "=") && !isHop(first) {
		if first == "" && len(items) == 1 {
			first = "lan"
		}
		keys, ok := preset(first)
		if !ok {
			meant := ""
			if near := plain.Nearest(first, []string{"lan", "wan", "lossy", "sat"}); near != "" {
				meant = "; did you mean " + near + "?"
			}
			p.fault("%q is neither KEY=VALUE nor a preset: use lan, wan, lossy or sat%s", first, meant)
		}
		items = append(strings.Split(keys, ","), items[1:]...)
		p.presetItems = len(items) - strings.Count(text, ",")
	}
	p.items(items)
	p.finish()
	if len(p.faults) > 0 {
		return Spec{}, fmt.Errorf("lab spec: %w", errors.Join(p.faults...))
	}
	return p.spec, nil
}

type parser struct {
	spec        Spec
	faults      []error
	seen        map[string]bool // keys given by the user
	queue       map[*wire.Path]bool
	presetItems int // that many leading items come from a preset
}

func (p *parser) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

// items applies keys for both directions first, then those for one, then those of routers.
func (p *parser) items(items []string) {
	type item struct{ key, value string }
	var both, one, hop []item
	for i, text := range items {
		key, value, ok := strings.Cut(strings.TrimSpace(text), "=")
		key = strings.TrimSpace(key)
		value = strings.TrimSpace(value)
		if rest, to := strings.CutPrefix(key, toPrefix); to && isHop(rest) {
			key = rest
		}
		if !ok && isHop(strings.TrimPrefix(key, fromPrefix)) && strings.HasSuffix(key, ".silent") {
			value, ok = "yes", true
		}
		switch {
		case strings.TrimSpace(text) == "" && !ok:
			if i >= p.presetItems {
				p.fault("empty item %d: remove a comma", i+1)
			}
			continue
		case !ok || key == "" || value == "":
			p.fault("%q is not KEY=VALUE", text)
			continue
		}
		if i >= p.presetItems {
			if p.seen[key] {
				p.fault("%s is given twice: give it once", key)
			}
			p.seen[key] = true
		}
		switch {
		case isHop(strings.TrimPrefix(key, fromPrefix)):
			hop = append(hop, item{key, value})
		case strings.HasPrefix(key, toPrefix) || strings.HasPrefix(key, fromPrefix):
			one = append(one, item{key, value})
		default:
			both = append(both, item{key, value})
		}
	}
	for _, it := range slices.Concat(both, one, hop) {
		p.set(it.key, it.value)
	}
	prefixes := []string{""}
	for _, w := range p.spec.ways() {
		prefixes = append(prefixes, w.prefix)
	}
	for _, prefix := range prefixes {
		if p.seen[prefix+"rtt"] && p.seen[prefix+"delay"] {
			p.fault("rtt and delay set the same thing: give one of them")
		}
		if p.seen[prefix+"pathmtu"] && p.seen[prefix+"blackhole"] {
			p.fault("%spathmtu and %sblackhole are the same key: give one of them", prefix, prefix)
		}
	}
}

// Prefixes of the keys for one direction of the wire: to the far host, and from it.
const (
	toPrefix   = string(model.To) + "."
	fromPrefix = string(model.From) + "."
)

// Keys that follow a host, like knobs: near.shape.
const (
	shapeKey = "shape"
	quotaKey = "cpu.quota"
)

// set applies one item.
func (p *parser) set(key, value string) {
	prefix, rest, dotted := strings.Cut(key, ".")
	end, isHost := model.ParseHost(prefix)
	switch {
	case !dotted:
		p.setBoth(key, value)
	case isHop(key):
		p.setHop(key, key, value, false)
	case prefix == string(model.From) && isHop(rest):
		p.setHop(key, rest, value, true)
	case key == model.Near.Of(shapeKey):
		p.spec.ShapeNear = p.rate(key, value)
	case key == model.Far.Of(shapeKey):
		p.spec.ShapeFar = p.rate(key, value)
	case key == model.Near.Of(quotaKey):
		p.spec.QuotaNear = p.quota(key, value)
	case key == model.Far.Of(quotaKey):
		p.spec.QuotaFar = p.quota(key, value)
	case isHost && rest == "":
		p.fault("%s=%s names no knob: write %s.KNOB=VALUE", key, value, prefix)
	case isHost:
		p.spec.Knobs = append(p.spec.Knobs, model.Assignment{Host: end, Knob: model.KnobID(rest), Value: value})
	case prefix == string(model.To):
		p.setPath(key, rest, value, &p.spec.To)
	case prefix == string(model.From):
		p.setPath(key, rest, value, &p.spec.From)
	default:
		p.fault("%s: unknown prefix %q: use to., from. (one direction of the wire), near. or far. (a knob of a host)", key, prefix)
	}
}

func (p *parser) setBoth(key, value string) {
	switch key {
	case "mtu":
		p.spec.MTU = p.number(key, value, minMTU, maxMTU)
	case "hops":
		if n := p.number(key, value, 0, maxHops); n > 0 && n <= maxHops {
			p.spec.Hops = make([]Hop, n)
		}
	case "seed":
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			p.fault("seed=%s: use a whole number from 0", value)
		}
		p.spec.Seed = n
	case "bus":
		p.spec.Bus = p.rate(key, value)
	case "duplex":
		if value != "half" && value != "full" {
			p.fault("duplex=%s: use half or full", value)
		}
		p.spec.HalfDuplex = value == "half"
	case "rtt":
		d := p.duration(key, value) / 2
		p.spec.To.Delay, p.spec.From.Delay = d, d
	default:
		p.setPath(key, key, value, &p.spec.To, &p.spec.From)
	}
}

// setPath applies a key of a direction to paths. key is the user's spelling.
func (p *parser) setPath(key, name, value string, paths ...*wire.Path) {
	var v wire.Path
	switch name {
	case "rate", "stage", "police":
		v.Rate = p.rate(key, value)
	case "swing":
		v.Swing = p.swing(key, value)
	case "delay", "jitter":
		v.Delay = p.duration(key, value)
	case "loss", "reorder", "dup":
		v.Loss = p.percent(key, value)
	case "queue":
		v.Queue = p.bytes(key, value)
	case "pathmtu", "blackhole":
		v.PathMTU = p.number(key, value, 28, maxMTU)
	default:
		p.unknown(key, name)
		return
	}
	for _, path := range paths {
		switch name {
		case "rate":
			path.Rate = v.Rate
		case "swing":
			path.Swing = v.Swing
		case "stage":
			path.Stage = v.Rate
		case "police":
			path.Police = v.Rate
		case "delay":
			path.Delay = v.Delay
		case "jitter":
			path.Jitter = v.Delay
		case "loss":
			path.Loss = v.Loss
		case "reorder":
			path.Reorder = v.Loss
		case "dup":
			path.Duplicate = v.Loss
		case "queue":
			path.Queue, p.queue[path] = v.Queue, true
		default:
			path.PathMTU = v.PathMTU
		}
	}
}

func (p *parser) unknown(key, name string) {
	switch {
	case name == "rtt":
		p.fault("%s: a round trip has no direction: use %s.delay", key, strings.TrimSuffix(key, ".rtt"))
	case name != key && slices.Contains([]string{"mtu", "seed", "duplex", "bus", "hops"}, name):
		p.fault("%s: belongs to the whole lab: use %s=", key, name)
	case isHop(strings.TrimPrefix(key, fromPrefix)):
		p.fault("%s: unknown key: use rate, delay, jitter, loss, reorder, dup, queue, swing, stage, police, pathmtu, mtu, silent, late, icmp or ecmp", key)
	default:
		p.fault("%s: unknown key: use rate, rtt, delay, jitter, loss, reorder, dup, queue, swing, stage, police, pathmtu, mtu, duplex, bus, seed, hops, hopK.KEY, or near.KNOB and far.KNOB", key)
	}
}

func (p *parser) rate(key, value string) units.BitRate {
	r, err := units.ParseBitRate(value)
	if err != nil || r < 1000 || r > 1e12 {
		p.fault("%s=%s: use a rate from 1kbit to 1tbit, for example 100mbit", key, value)
	}
	return r
}

func (p *parser) bytes(key, value string) units.Bytes {
	b, err := units.ParseBytes(value)
	if err != nil || b <= 0 {
		p.fault("%s=%s: use an amount of bytes above 0, for example 256KiB", key, value)
	}
	return b
}

func (p *parser) percent(key, value string) units.Percent {
	v, err := units.ParsePercent(value)
	if err != nil || !(v >= 0 && v <= 100) {
		p.fault("%s=%s: use a share from 0%% to 100%%, for example 0.1%%", key, value)
	}
	return v
}

// quota parses a share of one CPU. The kernel's minimum is 1 ms per period
// (min_cfs_quota_period of Linux kernel/sched/core.c), and the lab's period is 100 ms.
func (p *parser) quota(key, value string) units.Percent {
	v, err := units.ParsePercent(value)
	if err != nil || !(v >= 1 && v <= 1e5) {
		p.fault("%s=%s: use a share of one CPU from 1%% to 100000%%, for example 20%%", key, value)
	}
	return v
}

func (p *parser) duration(key, value string) time.Duration {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > maxDelay {
		p.fault("%s=%s: use a time from 0s to %s, for example 10ms", key, value, maxDelay)
	}
	return d
}

func (p *parser) number(key, value string, least, most int) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		p.fault("%s=%s: use a whole number from %d to %d", key, value, least, most)
	}
	return n
}

// finish fills in defaults and checks combinations of keys.
func (p *parser) finish() {
	if len(p.faults) > 0 {
		return
	}
	trip, frame := p.spec.trip(), units.Bytes(p.spec.MTU+wire.HeaderBytes)
	for _, w := range p.spec.ways() {
		slower := p.spec.slower(w.rated())
		switch {
		case !p.queue[w.path] && (w.path == w.whole || w.path.Rate > 0 || w.path.Stage > 0):
			w.path.Queue = DefaultQueue(slower, trip)
		case !p.queue[w.path]: // that of the whole path
		case slower == 0:
			p.fault("queue %s has no effect without a rate: give rate= as well", w.says)
		case w.path.Queue < frame:
			p.fault("queue of %d bytes %s holds no frame: use at least %d", w.path.Queue, w.says, frame)
		}
	}
	p.mayHop()
	p.maySwing()
	if p.spec.HalfDuplex && p.spec.To.Rate != p.spec.From.Rate {
		p.fault("duplex=half: one medium has one rate: give rate= for both directions")
	}
	if p.spec.HalfDuplex && p.spec.To.Rate == 0 {
		p.fault("duplex=half has no effect without a rate: give rate= as well")
	}
}

// slower returns the slowest of a direction's link and stage and the bus, 0 if all are
// unlimited.
func (s Spec) slower(p wire.Path) units.BitRate {
	least := p.Rate
	for _, r := range []units.BitRate{p.Stage, s.Bus} {
		if r > 0 && (least == 0 || r < least) {
			least = r
		}
	}
	return least
}

// DefaultQueue returns the default queue of a direction: the bytes that rate carries in a round
// trip, the rule of thumb of Villamizar and Song (High performance TCP in ANSNET, 1994), and at
// least 256 KiB. It is 0, unlimited, for an unlimited rate.
func DefaultQueue(rate units.BitRate, roundTrip time.Duration) units.Bytes {
	if rate <= 0 {
		return 0
	}
	return max(minQueue, units.Bytes(float64(rate)/8*roundTrip.Seconds()))
}
