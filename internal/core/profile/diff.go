package profile

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Difference compares one setting of a profile with a host's value.
type Difference struct {
	Knob model.KnobID    `json:"knob"`
	Want string          `json:"want"` // canonical value of the profile
	Now  fact.Of[string] `json:"now"`  // canonical value of the host
	Same bool            `json:"same"` // false also if the host's value is unknown
}

// Diff compares the settings of h with the current values of a host, in the order of the
// profile. A knob missing from values is unknown.
func (h Host) Diff(values map[model.KnobID]fact.Of[string]) []Difference {
	var all []Difference
	for _, s := range h.Settings {
		now, ok := values[s.Knob]
		if !ok {
			now = fact.Unknown[string]("not read on that host")
		}
		v, known := now.Get()
		all = append(all, Difference{Knob: s.Knob, Want: s.Value, Now: now, Same: known && v == s.Value})
	}
	return all
}

// slowerLink is the ratio to the proving host's link rate from which the evidence says little
// about a host: link rates differ by factors of 2.5 and more.
const slowerLink = 0.9

// Doubts returns the reasons why the evidence for h may not apply to the host f; nil if there
// are none. Facts that are unknown on either side raise no doubt.
func (h Host) Doubts(f model.HostFacts) []string {
	var all []string
	if h.System != "" && f.OS != "" && h.System != f.OS {
		all = append(all, fmt.Sprintf("tried on %s, and this host runs %s", h.System, f.OS))
	}
	if k, ok := f.Kernel.Get(); ok && h.Kernel != "" && k != h.Kernel {
		all = append(all, fmt.Sprintf("tried with kernel %s, and this host has %s: defaults may differ", h.Kernel, k))
	}
	if r, ok := f.LinkRate.Get(); ok && h.LinkRate > 0 && r > 0 {
		if q := float64(r) / float64(h.LinkRate); q < slowerLink || q > 1/slowerLink {
			all = append(all, fmt.Sprintf("tried on a link of %s, and this host's has %s", h.LinkRate, units.BitRate(r)))
		}
	}
	if m, ok := f.MTU.Get(); ok && h.MTU > 0 && m != h.MTU {
		all = append(all, fmt.Sprintf("tried with an MTU of %d, and this host has %d", h.MTU, m))
	}
	return all
}
