package facts

import (
	"errors"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The management registers of a transceiver (MII, IEEE 802.3 clauses 22.2.4, 28.2.4 and
// 40.5.1; Linux include/uapi/linux/mii.h). Some drivers of old cards give access to these,
// and report nothing else about their link.
const (
	miiControl  = 0
	miiStatus   = 1
	miiOffered  = 4
	miiPartner  = 5
	miiControlG = 9 // of 1000BASE-T
	miiStatusG  = 10
	miiCount    = 11 // registers to read

	miiNegotiates  = 0x1000 // of the control register
	miiSpeed100    = 0x2000
	miiSpeed1000   = 0x0040
	miiFull        = 0x0100
	miiLinkUp      = 0x0004 // of the status register
	miiNegotiated  = 0x0020
	miiExtended    = 0x0100 // there are registers of 1000BASE-T
	miiPartnerOnes = 0xffff // an undriven bus
)

// miiMode is one link mode in the registers.
type miiMode struct {
	name      string
	mbit      units.BitRate
	duplex    string
	status    uint16 // bit of the status register: the transceiver supports it; 0 for 1000BASE-T
	offer     uint16 // bit of the word offered by us and by the partner, or of control 9
	partnered uint16 // for 1000BASE-T: bit of status 10
}

// miiModes returns the negotiated modes, the best first (IEEE 802.3 annex 28B.3).
func miiModes() []miiMode {
	return []miiMode{
		{"1000baseT/Full", 1000e6, "full", 0, 0x0200, 0x0800}, {"1000baseT/Half", 1000e6, "half", 0, 0x0100, 0x0400},
		{"100baseT/Full", 100e6, "full", 0x4000, 0x0100, 0}, {"100baseT/Half", 100e6, "half", 0x2000, 0x0080, 0},
		{"10baseT/Full", 10e6, "full", 0x1000, 0x0040, 0}, {"10baseT/Half", 10e6, "half", 0x0800, 0x0020, 0},
	}
}

// decodeMII decodes the link of a transceiver from its first registers.
func decodeMII(r [miiCount]uint16) (model.Media, error) {
	const source = "MII registers"
	m := unknownMedia("the transceiver does not report it")
	status, control := r[miiStatus], r[miiControl]
	if status == 0 || status == miiPartnerOnes {
		return m, errors.New("no transceiver answers")
	}
	supported, offered, partner := []string{}, []string{}, []string{}
	var common *miiMode
	for _, mode := range miiModes() {
		has, ours, theirs := status&mode.status != 0, r[miiOffered]&mode.offer != 0, r[miiPartner]&mode.offer != 0
		if mode.status == 0 {
			has = status&miiExtended != 0
			ours, theirs = has && r[miiControlG]&mode.offer != 0, has && r[miiStatusG]&mode.partnered != 0
		}
		if has {
			supported = append([]string{mode.name}, supported...)
		}
		if ours {
			offered = append([]string{mode.name}, offered...)
		}
		if theirs {
			partner = append([]string{mode.name}, partner...)
		}
		if ours && theirs && common == nil {
			common = &mode
		}
	}
	negotiates := control&miiNegotiates != 0
	m.Supported, m.Advertised, m.Autoneg = fact.Known(supported, source), fact.Known(offered, source), fact.Known(negotiates, source)
	if status&miiNegotiated != 0 && len(partner) > 0 {
		m.Partner = fact.Known(partner, source)
	}
	switch {
	case status&miiLinkUp == 0:
		m.Speed = fact.Unknown[units.BitRate]("the link has no speed")
	case negotiates && status&miiNegotiated != 0 && common != nil:
		m.Speed, m.Duplex = fact.Known(common.mbit, source), fact.Known(common.duplex, source)
	case !negotiates:
		mbit, duplex := units.BitRate(10e6), "half"
		if control&miiSpeed100 != 0 {
			mbit = 100e6
		}
		if control&miiSpeed1000 != 0 && control&miiSpeed100 == 0 && status&miiExtended != 0 {
			mbit = 1000e6
		}
		if control&miiFull != 0 {
			duplex = "full"
		}
		m.Speed, m.Duplex = fact.Known(mbit, source), fact.Known(duplex, source)
	}
	return m, nil
}
