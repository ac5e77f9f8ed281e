package facts

import (
	"slices"
	"testing"

	"linerate/internal/core/units"
)

// TestMII: what a transceiver's registers say of its link. The first are those of the
// card tulip in a machine of package lab/machine.
func TestMII(t *testing.T) {
	for name, c := range map[string]struct {
		registers [miiCount]uint16
		speed     units.BitRate
		duplex    string
		autoneg   bool
		best      string // that is offered
		fails     bool
	}{
		"negotiated":         {registers: [miiCount]uint16{0x3100, 0x702c, 0, 0, 0x0501, 0x4181}, speed: 100e6, duplex: "full", autoneg: true, best: "100baseT/Full"},
		"half is common":     {registers: [miiCount]uint16{0x3100, 0x782d, 0, 0, 0x01e1, 0x40a1}, speed: 100e6, duplex: "half", autoneg: true, best: "100baseT/Full"},
		"10 only over there": {registers: [miiCount]uint16{0x1000, 0x782d, 0, 0, 0x01e1, 0x0021}, speed: 10e6, duplex: "half", autoneg: true, best: "100baseT/Full"},
		"gigabit":            {registers: [miiCount]uint16{0x1140, 0x796d, 0, 0, 0x01e1, 0xc1e1, 0, 0, 0, 0x0300, 0x3800}, speed: 1000e6, duplex: "full", autoneg: true, best: "1000baseT/Full"},
		"gigabit one-sided":  {registers: [miiCount]uint16{0x1140, 0x796d, 0, 0, 0x01e1, 0xc1e1, 0, 0, 0, 0x0300, 0x0000}, speed: 100e6, duplex: "full", autoneg: true, best: "1000baseT/Full"},
		"forced 10 half":     {registers: [miiCount]uint16{0x0000, 0x780d, 0, 0, 0x01e1}, speed: 10e6, duplex: "half", best: "100baseT/Full"},
		"forced 100 full":    {registers: [miiCount]uint16{0x2100, 0x780d, 0, 0, 0x01e1}, speed: 100e6, duplex: "full", best: "100baseT/Full"},
		"no link":            {registers: [miiCount]uint16{0x3100, 0x7809, 0, 0, 0x01e1}, autoneg: true, best: "100baseT/Full"},
		"negotiating still":  {registers: [miiCount]uint16{0x3100, 0x780d, 0, 0, 0x01e1, 0x41e1}, autoneg: true, best: "100baseT/Full"},
		"nobody answers":     {registers: [miiCount]uint16{0xffff, 0xffff}, fails: true},
		"no transceiver":     {fails: true},
	} {
		m, err := decodeMII(c.registers)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.fails {
			continue
		}
		offered := m.Advertised.Or(nil)
		if m.Speed.Or(0) != c.speed || m.Speed.IsKnown() != (c.speed != 0) || m.Duplex.Or("") != c.duplex || m.Autoneg.Or(!c.autoneg) != c.autoneg ||
			len(offered) == 0 || offered[len(offered)-1] != c.best || !slices.Contains(m.Supported.Or(nil), "100baseT/Full") {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
