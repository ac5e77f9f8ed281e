package facts

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The messages of generic netlink family "ethtool" that no knob reads: link
// modes with those of the other end, and all features at once (Linux
// include/uapi/linux/ethtool_netlink.h, Documentation/networking/
// ethtool-netlink.rst).
const (
	ethGetModes    = 4  // ETHTOOL_MSG_LINKMODES_GET
	ethGetFeatures = 11 // ETHTOOL_MSG_FEATURES_GET

	ethHeader     = 1 // ETHTOOL_A_*_HEADER
	ethHeaderName = 2 // ETHTOOL_A_HEADER_DEV_NAME

	modesAutoneg = 2 // ETHTOOL_A_LINKMODES_*
	modesOurs    = 3
	modesPeer    = 4
	modesSpeed   = 5
	modesDuplex  = 6

	featuresHW       = 2 // ETHTOOL_A_FEATURES_*
	featuresActive   = 4
	featuresNoChange = 5

	bitsetNoMask = 1 // ETHTOOL_A_BITSET_*
	bitsetBits   = 3
	bitName      = 2 // ETHTOOL_A_BITSET_BIT_*
	bitValue     = 3

	nlaNested    = 0x8000 // NLA_F_NESTED
	nlaTypeMask  = 0x3fff // NLA_TYPE_MASK
	nlaHeader    = 4
	genlHeader   = 4
	genlVersion  = 1
	speedUnknown = 1<<32 - 1 // SPEED_UNKNOWN
)

var errMessage = errors.New("the kernel's answer is cut short or malformed")

// ethRequest makes the body of a request about device.
func ethRequest(command byte, device string) []byte {
	name := nlAttribute(ethHeaderName, append([]byte(device), 0))
	return append([]byte{command, genlVersion, 0, 0}, nlAttribute(ethHeader|nlaNested, name)...)
}

func nlAttribute(id uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(nlaHeader+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, id), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// nlWalk calls each for every attribute in b; the type is without flags.
func nlWalk(b []byte, each func(id uint16, value []byte) error) error {
	for len(b) >= nlaHeader {
		size := int(binary.NativeEndian.Uint16(b))
		if size < nlaHeader || size > len(b) {
			return errMessage
		}
		if err := each(binary.NativeEndian.Uint16(b[2:])&nlaTypeMask, b[nlaHeader:size]); err != nil {
			return err
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	if len(b) != 0 {
		return errMessage
	}
	return nil
}

// nlBit is one bit of a set. In a set with a mask only bits of the mask are
// listed; in one without, only those that are on.
type nlBit struct {
	name string
	on   bool
}

func decodeBits(b []byte) ([]nlBit, error) {
	var all []nlBit
	noMask := false
	err := nlWalk(b, func(id uint16, value []byte) error {
		switch id {
		case bitsetNoMask:
			noMask = true
		case bitsetBits:
			return nlWalk(value, func(_ uint16, value []byte) error {
				var one nlBit
				err := nlWalk(value, func(id uint16, value []byte) error {
					switch id {
					case bitName:
						one.name = strings.TrimRight(string(value), "\x00")
					case bitValue:
						one.on = true
					}
					return nil
				})
				all = append(all, one)
				return err
			})
		}
		return nil
	})
	for i := range all {
		all[i].on = all[i].on || noMask
	}
	return all, err
}

// names lists the bits that are on, or all.
func names(bits []nlBit, all bool) []string {
	list := []string{}
	for _, one := range bits {
		if (one.on || all) && one.name != "" {
			list = append(list, one.name)
		}
	}
	return list
}

// isMode tells link modes from the other bits of a link: TP, Pause, Autoneg.
func isMode(name string) bool { return strings.Contains(name, "base") }

// modesOf keeps the link modes of a list; none is an empty list, not nil.
func modesOf(list []string) []string {
	return slices.DeleteFunc(list, func(name string) bool { return !isMode(name) })
}

// unknownMedia returns a link mode of which nothing is known, for one reason.
func unknownMedia(why string) model.Media {
	list := fact.Unknown[[]string](why)
	return model.Media{
		Speed: fact.Unknown[units.BitRate](why), Duplex: fact.Unknown[string](why), Autoneg: fact.Unknown[bool](why),
		Supported: list, Advertised: list, Partner: list,
	}
}

// decodeModes reads an answer to ethGetModes.
func decodeModes(body []byte) (model.Media, error) {
	const source = "ethtool"
	m := unknownMedia("the driver does not tell")
	if len(body) < genlHeader {
		return m, errMessage
	}
	err := nlWalk(body[genlHeader:], func(id uint16, value []byte) error {
		number := uint32(0)
		switch {
		case len(value) >= 4:
			number = binary.NativeEndian.Uint32(value)
		case len(value) >= 1:
			number = uint32(value[0])
		}
		switch id {
		case modesAutoneg:
			m.Autoneg = fact.Known(number == 1, source)
		case modesSpeed:
			if number > 0 && number != speedUnknown {
				m.Speed = fact.Known(units.BitRate(number)*1e6, source)
			} else {
				m.Speed = fact.Unknown[units.BitRate]("the link has no speed")
			}
		case modesDuplex: // DUPLEX_HALF and DUPLEX_FULL; 255 is unknown
			if number < 2 {
				m.Duplex = fact.Known([]string{"half", "full"}[number], source)
			}
		case modesOurs, modesPeer:
			bits, err := decodeBits(value)
			if err != nil {
				return fmt.Errorf("link modes: %w", err)
			}
			if id == modesPeer {
				m.Partner = fact.Known(modesOf(names(bits, false)), source)
				return nil
			}
			m.Advertised = fact.Known(modesOf(names(bits, false)), source)
			m.Supported = fact.Known(modesOf(names(bits, true)), source)
		}
		return nil
	})
	return m, err
}

// decodeOffloads reads an answer to ethGetFeatures. The set of what the
// hardware can names every feature of the kernel; what a driver has not got is
// left out.
func decodeOffloads(body []byte) ([]model.Offload, error) {
	if len(body) < genlHeader {
		return nil, errMessage
	}
	sets := map[uint16][]nlBit{}
	err := nlWalk(body[genlHeader:], func(id uint16, value []byte) error {
		if id != featuresHW && id != featuresActive && id != featuresNoChange {
			return nil
		}
		bits, err := decodeBits(value)
		sets[id] = bits
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("features: %w", err)
	}
	on, never := names(sets[featuresActive], false), names(sets[featuresNoChange], false)
	all := []model.Offload{}
	for _, one := range sets[featuresHW] {
		o := model.Offload{Name: one.name, On: slices.Contains(on, one.name), Fixed: !one.on || slices.Contains(never, one.name)}
		if o.Name != "" && (o.On || !o.Fixed) {
			all = append(all, o)
		}
	}
	return all, nil
}
