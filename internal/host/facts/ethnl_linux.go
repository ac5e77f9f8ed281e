package facts

import (
	"errors"
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/knob/ethtool"
)

// media queries the driver, or, if that reports nothing, the transceiver.
func media(device string) model.Media {
	f, err := ethtool.Ask(device, "linkmodes")
	m := unknownMedia(reason(err))
	if err == nil {
		m = mediaOf(f)
	}
	if m.Speed.IsKnown() || m.Duplex.IsKnown() || m.Autoneg.IsKnown() {
		return m
	}
	if reported, err := readMII(device); err == nil {
		return reported
	}
	return m
}

func offloads(device string) fact.Of[[]model.Offload] {
	f, err := ethtool.Ask(device, "features")
	if err != nil {
		return fact.Unknown[[]model.Offload](reason(err))
	}
	return fact.Known(offloadsOf(f), "ethtool")
}

// reason says why a driver reports nothing.
func reason(err error) string {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return "the driver does not report it"
	}
	return fmt.Sprintf("ask the driver: %v", err)
}

// driverInfo queries a driver for its name and the place of its card.
func driverInfo(device string) (ethtool.Info, error) {
	s, err := ethtool.OpenSocket()
	if err != nil {
		return ethtool.Info{}, err
	}
	defer s.Close() // nothing was written
	i, err := s.Info(device)
	if errors.Is(err, errors.ErrUnsupported) {
		return i, errors.New("the interface has no driver that reports it")
	}
	return i, err
}

// speedUnknown is SPEED_UNKNOWN of Linux include/uapi/linux/ethtool.h.
const speedUnknown = 1<<32 - 1

// mediaOf returns the link mode that a driver reports.
func mediaOf(f ethtool.Fields) model.Media {
	const source = "ethtool"
	m := unknownMedia("the driver does not report it")
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

// offloadsOf returns the features that a driver reports. The hardware set names every feature
// of the kernel; those that the driver lacks are left out.
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
