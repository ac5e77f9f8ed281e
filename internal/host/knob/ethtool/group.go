package ethtool

import "slices"

// The groups that need more than a table.
const (
	features  = "features"
	linkmodes = "linkmodes"
)

// kind is how an attribute is encoded.
type kind int

const (
	kindU32 kind = iota
	kindU8
	kindBitset
)

// attribute is one attribute of a group's messages.
type attribute struct {
	name string
	id   uint16
	kind kind
}

// group is one pair of messages: settings that are read and set together.
type group struct {
	name       string
	get, set   uint8 // ETHTOOL_MSG_*; set is 0 if nothing can be set
	attributes []attribute

	// The older request: command numbers, and the names of its 32-bit words after the
	// command, in order; "" is an unused word.
	ioctlGet, ioctlSet uint32
	words              []string
}

// groups returns the groups of Linux include/uapi/linux/ethtool_netlink.h (messages
// ETHTOOL_MSG_*, attributes ETHTOOL_A_*) and include/uapi/linux/ethtool.h (commands
// ETHTOOL_G* and ETHTOOL_S*, and their structs).
func groups() []group {
	return []group{
		{name: "linkinfo", get: 2, attributes: []attribute{{"port", 2, kindU8}}},
		{name: linkmodes, get: 4, set: 5, attributes: []attribute{
			{"autoneg", 2, kindU8}, {"ours", 3, kindBitset}, {"peer", 4, kindBitset}, {"speed", 5, kindU32}, {"duplex", 6, kindU8},
		}},
		{name: "wol", get: 9, set: 10, attributes: []attribute{{"modes", 2, kindBitset}}},
		{name: features, get: 11, set: 12, attributes: []attribute{
			{"hw", 2, kindBitset}, {"wanted", 3, kindBitset}, {"active", 4, kindBitset}, {"nochange", 5, kindBitset},
		}},
		{name: "rings", get: 15, set: 16, attributes: []attribute{
			{"rx-max", 2, kindU32}, {"rx-mini-max", 3, kindU32}, {"rx-jumbo-max", 4, kindU32}, {"tx-max", 5, kindU32},
			{"rx", 6, kindU32}, {"rx-mini", 7, kindU32}, {"rx-jumbo", 8, kindU32}, {"tx", 9, kindU32},
		}, ioctlGet: 0x10, ioctlSet: 0x11, words: []string{
			"rx-max", "rx-mini-max", "rx-jumbo-max", "tx-max", "rx", "rx-mini", "rx-jumbo", "tx",
		}},
		{name: "channels", get: 17, set: 18, attributes: []attribute{
			{"rx-max", 2, kindU32}, {"tx-max", 3, kindU32}, {"other-max", 4, kindU32}, {"combined-max", 5, kindU32},
			{"rx", 6, kindU32}, {"tx", 7, kindU32}, {"other", 8, kindU32}, {"combined", 9, kindU32},
		}, ioctlGet: 0x3c, ioctlSet: 0x3d, words: []string{
			"rx-max", "tx-max", "other-max", "combined-max", "rx", "tx", "other", "combined",
		}},
		{name: "coalesce", get: 19, set: 20, attributes: []attribute{
			{"rx-usecs", 2, kindU32}, {"rx-frames", 3, kindU32}, {"rx-usecs-irq", 4, kindU32}, {"rx-frames-irq", 5, kindU32},
			{"tx-usecs", 6, kindU32}, {"tx-frames", 7, kindU32}, {"tx-usecs-irq", 8, kindU32}, {"tx-frames-irq", 9, kindU32},
			{"adaptive-rx", 11, kindU8}, {"adaptive-tx", 12, kindU8},
		}, ioctlGet: 0x0e, ioctlSet: 0x0f, words: []string{
			"rx-usecs", "rx-frames", "rx-usecs-irq", "rx-frames-irq", "tx-usecs", "tx-frames", "tx-usecs-irq", "tx-frames-irq",
			"", "adaptive-rx", "adaptive-tx", "", "", "", "", "", "", "", "", "", "", "",
		}},
		{name: "pause", get: 21, set: 22, attributes: []attribute{
			{"autoneg", 2, kindU8}, {"rx", 3, kindU8}, {"tx", 4, kindU8},
		}, ioctlGet: 0x12, ioctlSet: 0x13, words: []string{"autoneg", "rx", "tx"}},
		{name: "eee", get: 23, set: 24, attributes: []attribute{
			{"active", 4, kindU8}, {"enabled", 5, kindU8}, {"tx-lpi-enabled", 6, kindU8}, {"tx-lpi-timer", 7, kindU32},
		}, ioctlGet: 0x44, ioctlSet: 0x45, words: []string{
			"", "", "", "active", "enabled", "tx-lpi-enabled", "tx-lpi-timer", "", "",
		}},
	}
}

func groupByName(name string) (group, bool) {
	for _, g := range groups() {
		if g.name == name {
			return g, true
		}
	}
	return group{}, false
}

func (g group) has(field string) bool {
	return slices.ContainsFunc(g.attributes, func(a attribute) bool { return a.name == field })
}

func (g group) kindOf(field string) kind {
	for _, a := range g.attributes {
		if a.name == field {
			return a.kind
		}
	}
	return kindU32
}

// Fields are the values of a group by name. Values that the driver does not report are
// missing.
type Fields struct {
	Numbers map[string]uint32
	Sets    map[string]Bits
}

// Bits are a set of named bits. Bits that are not listed are not in its mask; in a set
// without a mask they are clear.
type Bits []Bit

// Bit is one bit of a set.
type Bit struct {
	Name string // "" for a retired feature
	On   bool
}

// Modes returns the names of the link modes that are on, or of all, without the other
// bits of a link's set, such as TP, Pause and Autoneg.
func (b Bits) Modes(all bool) []string {
	names := []string{}
	for _, one := range b {
		if isMode(one.Name) && (one.On || all) {
			names = append(names, one.Name)
		}
	}
	return names
}

// Is reports whether the bit called name is on.
func (b Bits) Is(name string) bool {
	return slices.ContainsFunc(b, func(one Bit) bool { return one.Name == name && one.On })
}

// has reports whether the bit called name is listed.
func (b Bits) has(name string) bool {
	return slices.ContainsFunc(b, func(one Bit) bool { return one.Name == name })
}

// portName names PORT_* of Linux include/uapi/linux/ethtool.h.
func portName(n uint32) string {
	names := []string{"tp", "aui", "mii", "fibre", "bnc", "da"}
	switch {
	case n < uint32(len(names)):
		return names[n]
	case n == 0xef:
		return "none"
	}
	return "other"
}
