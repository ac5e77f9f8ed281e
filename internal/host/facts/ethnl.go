package facts

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/knob/ethtool"
)

// unknownMedia returns a link mode of which nothing is known, for one reason.
func unknownMedia(why string) (m model.Media) {
	fact.Explain(&m, why)
	return m
}

// speedUnknown is SPEED_UNKNOWN of Linux include/uapi/linux/ethtool.h.
const speedUnknown = 1<<32 - 1

// mediaOf returns the link mode that a driver told.
func mediaOf(f ethtool.Fields) model.Media {
	const source = "ethtool"
	m := unknownMedia("the driver does not tell")
	if n, ok := f.Numbers["autoneg"]; ok {
		m.Autoneg = fact.Known(n == 1, source)
	}
	if n, ok := f.Numbers["speed"]; ok {
		m.Speed = fact.If(n > 0 && n != speedUnknown, units.BitRate(n)*1e6, source, "the link has no speed")
	}
	if n, ok := f.Numbers["duplex"]; ok && n < 2 { // DUPLEX_HALF and DUPLEX_FULL; 255 is unknown
		m.Duplex = fact.Known([]string{"half", "full"}[n], source)
	}
	if peer, ok := f.Sets["peer"]; ok {
		m.Partner = fact.Known(peer.Modes(false), source)
	}
	if ours, ok := f.Sets["ours"]; ok {
		m.Advertised, m.Supported = fact.Known(ours.Modes(false), source), fact.Known(ours.Modes(true), source)
	}
	return m
}

// offloadsOf returns the features that a driver told. The set of what the hardware can
// names every feature of the kernel; what a driver has not got is left out.
func offloadsOf(f ethtool.Fields) []model.Offload {
	all := []model.Offload{}
	for _, one := range f.Sets["hw"] {
		o := model.Offload{Name: one.Name, On: f.Sets["active"].Is(one.Name), Fixed: !one.On || f.Sets["nochange"].Is(one.Name)}
		if o.Name != "" && (o.On || !o.Fixed) {
			all = append(all, o)
		}
	}
	return all
}
