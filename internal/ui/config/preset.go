package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

// Preset is an experiment that is often made by hand, as a plan without hosts.
type Preset struct {
	Name    string
	Summary string // the question that it answers
	Needs   string // beyond the right to measure; "" for none
	// Variants are plan files. The first one whose knobs both hosts have is carried out.
	Variants []Variant
	Copies   bool // it copies files from memory to memory
}

// Variant is one plan for the question of a preset.
type Variant struct {
	Of   string // systems or cards that it suits; "" for all
	Text string // a plan file
}

// copySize is the most that a copy in an experiment moves: 2 s at 1 Gbit/s, so that ten blocks
// of five settings and both directions take minutes.
const (
	copySize = 256 << 20
	copyRate = units.BitRate(1e9)
)

// Presets returns all presets, in the order of the help.
func Presets() []Preset {
	return []Preset{
		{
			Name: "windows", Summary: "which socket buffer is enough: the smallest window that is as good as the best",
			Variants: []Variant{{Text: `title: which window is enough
factors: [{knob: window, levels: [64KiB, 128KiB, 256KiB, 512KiB, 1MiB, 1536KiB]}]
`}},
		},
		{
			Name: "buffers", Summary: "which ceiling of TCP buffers is enough, of both hosts and both kinds of buffer",
			Needs: "the right to change settings of both hosts",
			Variants: []Variant{{Text: `title: which ceiling of TCP buffers is enough
factors: [{knob: tcp.recv_buffer_max, also: [tcp.send_buffer_max], levels: [256KiB, 512KiB, 1MiB, 2MiB, 4MiB, 16MiB]}]
`}},
		},
		{
			Name: "mtu", Summary: "jumbo frames and socket buffers together: one alone may show nothing",
			Needs: "the right to change settings of both hosts, and a path that carries 9000 bytes",
			Variants: []Variant{{Text: `title: MTU and window
factors: [{knob: link.mtu, levels: [1500, 9000]}, {knob: window, levels: [64KiB, 1MiB]}]
`}},
		},
		{
			Name: "polling", Summary: "whether a card that is asked in turn does better than one that interrupts",
			Needs: "the right to change settings of both hosts; FreeBSD with options DEVICE_POLLING, macOS, or Linux 4.20 and later",
			Variants: []Variant{{Of: "FreeBSD and macOS", Text: `title: polling
settings: [{name: polling, set: {polling: on}}]
`}, {Of: "Linux", Text: `title: polling
settings:
  - {name: interrupts, set: {rx.napi_defer_hard_irqs: 0, rx.gro_flush_timeout: 0}}
  - {name: polling, set: {rx.napi_defer_hard_irqs: 2, rx.gro_flush_timeout: 200000}}
`}},
		},
		{
			Name: "cards", Summary: "whether this card on this machine is faster at a lower speed, or without its offloads, by the size of writes",
			Needs: "the right to change settings of both hosts, and a card with media or offloads to choose; to compare cards, run it over each and use linerate compare",
			Variants: []Variant{{Of: "cards with media to choose", Text: `title: card and media
factors: [{knob: near.nic.media.speed, levels: [100, 1000]}, {knob: block, levels: [1KiB, 64KiB]}]
settle: 5s
`}, {Of: "cards with offloads to choose", Text: `title: card and offloads
settings:
  - {name: 1KiB, set: {block: 1KiB}}
  - {name: 1KiB alone, set: {block: 1KiB, near.nic.offload.tso: off, near.nic.offload.gso: off, far.nic.offload.gro: off}}
  - {name: 64KiB, set: {block: 64KiB}}
  - {name: 64KiB alone, set: {block: 64KiB, near.nic.offload.tso: off, near.nic.offload.gso: off, far.nic.offload.gro: off}}
`}},
		},
		{
			Name: "share", Summary: "what a file share would gain, written and read, by jumbo frames, by buffers and by both; memory to memory, without its disks",
			Needs:  "the right to change settings of both hosts, and a path that carries 9000 bytes",
			Copies: true,
			Variants: []Variant{{Text: `title: file share
flow: {direction: [to, from]}
settings:
  - {name: as it is}
  - {name: jumbo, set: {link.mtu: 9000}}
  - {name: buffers, set: {tcp.recv_buffer_max: 16MiB, tcp.send_buffer_max: 16MiB}}
  - {name: both, set: {link.mtu: 9000, tcp.recv_buffer_max: 16MiB, tcp.send_buffer_max: 16MiB}}
`}},
		},
	}
}

// PresetNames returns the names of all presets.
func PresetNames() []string {
	out := lists.Each(Presets(), func(p Preset) string { return p.Name })
	return out
}

// ByPresetName returns the preset with this name. The error lists all.
func ByPresetName(name string) (Preset, error) {
	all := Presets()
	if i := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name }); i >= 0 {
		return all[i], nil
	}
	lines := []string{"there is no preset " + quote(name) + "; there are"}
	for _, p := range all {
		lines = append(lines, fmt.Sprintf("  %-8s %s", p.Name, p.Summary))
	}
	return Preset{}, fmt.Errorf("%s", strings.Join(lines, "\n"))
}

// Files returns the plans of p, one for each variant.
func (p Preset) Files(check KnobChecker, kinds traffic.Kinds) ([]File, error) {
	var out []File
	for _, v := range p.Variants {
		f, err := Parse("preset "+p.Name, []byte(v.Text), check, kinds)
		if err != nil {
			return nil, err
		}
		if p.Copies {
			f.Copies()
		}
		out = append(out, f)
	}
	return out, nil
}

// Lacking says which of settings the hosts lack, as far as they report it; "" for none.
func Lacking(settings []model.Setting, hosts []model.HostFacts) string {
	for _, s := range settings {
		for _, a := range s.Assignments {
			i := slices.IndexFunc(hosts, func(h model.HostFacts) bool { return h.Host == a.Host })
			if a.Host == "" || i < 0 {
				continue
			}
			value, reported := hosts[i].Knobs[a.Knob]
			if !reported {
				value = fact.Unknown[string]("not reported")
			}
			if !value.IsKnown() {
				return fmt.Sprintf("%s of the %s host: %s", a.Knob, a.Host, value.Reason())
			}
			if why := noMedia(a.Knob, hosts[i]); why != "" {
				return fmt.Sprintf("%s of the %s host: %s", a.Knob, a.Host, why)
			}
		}
	}
	return ""
}

// Copies makes the traffic copies of a file from memory to memory. Copies that end on a disk are
// flushed: copies to the page cache would only compare memory with memory.
func (f *File) Copies() {
	f.Flow.Engine, f.Flow.Bytes, f.Flow.Params = files.Name, copySize, traffic.Write(files.Params{Mode: files.Copy, Sync: true})
}

// FitCopies makes the copied files smaller, so that a slower link takes no longer.
func (f *File) FitCopies(rate fact.Of[units.BitRate]) {
	if f.Flow.Engine == files.Name && rate.Or(copyRate) < copyRate {
		f.Flow.Bytes = max(1<<20, units.Bytes(copySize*float64(rate.Or(0)/copyRate)))
	}
}

// Raising returns the settings that raise the hosts' values, without the assignments that do
// not. out says which settings were dropped, and why: the hosts already have them, or they equal
// an earlier one.
func Raising(settings []model.Setting, hosts []model.HostFacts) (left []model.Setting, out []string) {
	for _, s := range settings {
		given := len(s.Assignments) > 0
		s.Assignments = slices.DeleteFunc(slices.Clone(s.Assignments), func(a model.Assignment) bool {
			i := slices.IndexFunc(hosts, func(h model.HostFacts) bool { return h.Host == a.Host })
			if i < 0 {
				return false
			}
			now, known := hosts[i].Knobs[a.Knob].Get()
			has, err := strconv.ParseFloat(now, 64)
			want, wrong := strconv.ParseFloat(a.Value, 64)
			return known && err == nil && wrong == nil && want <= has
		})
		switch i := slices.IndexFunc(left, func(o model.Setting) bool { return slices.Equal(o.Assignments, s.Assignments) }); {
		case given && len(s.Assignments) == 0:
			out = append(out, s.Name+": the hosts have that already")
		case i >= 0:
			out = append(out, fmt.Sprintf("%s: but for what the hosts have already, it is %s", s.Name, left[i].Name))
		default:
			left = append(left, s)
		}
	}
	return left, out
}

// noMedia says why the card of a host has no media to choose, "" if it may have.
func noMedia(id model.KnobID, h model.HostFacts) string {
	if !strings.HasPrefix(string(id), "nic.media.") {
		return ""
	}
	for _, n := range h.NICs {
		if n.Name != h.Interface.Or("") {
			continue
		}
		if kind := n.Kind.Or("device"); kind != "device" {
			return fmt.Sprintf("%s is of kind %s and has no media to choose", n.Name, kind)
		}
		if modes, known := n.Media.Supported.Get(); known && len(modes) == 0 {
			return n.Name + " has no media to choose"
		}
	}
	return ""
}
