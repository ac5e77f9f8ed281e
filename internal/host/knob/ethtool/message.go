package ethtool

import (
	"errors"

	"github.com/mdlayher/netlink"
)

// A message is a generic netlink header of four bytes and attributes (Linux
// include/uapi/linux/genetlink.h struct genlmsghdr).
const (
	genlVersion  = 1
	genlHeader   = 4
	attrHeaderID = 1 // ETHTOOL_A_*_HEADER of every group

	headerDevName = 2 // ETHTOOL_A_HEADER_DEV_NAME
	headerFlags   = 3 // ETHTOOL_A_HEADER_FLAGS
	flagOmitReply = 2 // ETHTOOL_FLAG_OMIT_REPLY

	bitsetNoMask = 1 // ETHTOOL_A_BITSET_NOMASK
	bitsetBits   = 3 // ETHTOOL_A_BITSET_BITS
	bitsBit      = 1 // ETHTOOL_A_BITSET_BITS_BIT
	bitName      = 2 // ETHTOOL_A_BITSET_BIT_NAME
	bitValue     = 3 // ETHTOOL_A_BITSET_BIT_VALUE
)

var errMessage = errors.New("the kernel's answer is cut short or malformed")

// encodeRequest returns the body of a message about device: the header and the fields of f,
// in the order of the group.
func encodeRequest(command uint8, device string, g group, f Fields) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	e.Nested(attrHeaderID, func(header *netlink.AttributeEncoder) error {
		header.String(headerDevName, device)
		if command != g.get {
			header.Uint32(headerFlags, flagOmitReply)
		}
		return nil
	})
	for _, a := range g.attributes {
		if set, ok := f.Sets[a.name]; ok && a.kind == kindBitset {
			e.Nested(a.id, set.encode)
		}
		n, ok := f.Numbers[a.name]
		switch {
		case ok && a.kind == kindU8:
			e.Uint8(a.id, uint8(n))
		case ok && a.kind == kindU32:
			e.Uint32(a.id, n)
		}
	}
	b, err := e.Encode()
	return append([]byte{command, genlVersion, 0, 0}, b...), err
}

// encode lists the bits to change, each with its new value.
func (b Bits) encode(set *netlink.AttributeEncoder) error {
	set.Nested(bitsetBits, func(list *netlink.AttributeEncoder) error {
		for _, one := range b {
			list.Nested(bitsBit, func(entry *netlink.AttributeEncoder) error {
				entry.String(bitName, one.Name)
				entry.Flag(bitValue, one.On)
				return nil
			})
		}
		return nil
	})
	return nil
}

// Decode decodes the body of an answer about a group. It skips attributes that the group does
// not list.
func Decode(name string, body []byte) (Fields, error) {
	f := Fields{Numbers: map[string]uint32{}, Sets: map[string]Bits{}}
	g, known := groupByName(name)
	if !known || len(body) < genlHeader {
		return f, errMessage
	}
	d, err := netlink.NewAttributeDecoder(body[genlHeader:])
	if err != nil {
		return f, errMessage
	}
	for d.Next() {
		for _, a := range g.attributes {
			if a.id == d.Type() {
				f.decode(a, d)
			}
		}
	}
	if d.Err() != nil {
		return f, errMessage
	}
	return f, nil
}

func (f Fields) decode(a attribute, d *netlink.AttributeDecoder) {
	switch a.kind {
	case kindBitset:
		set := Bits{}
		d.Nested(set.decode)
		f.Sets[a.name] = set
	case kindU8:
		f.Numbers[a.name] = uint32(d.Uint8())
	case kindU32:
		f.Numbers[a.name] = d.Uint32()
	}
}

// decode decodes a set in its verbose form. In a set without a mask every listed bit is on.
func (b *Bits) decode(d *netlink.AttributeDecoder) error {
	noMask := false
	for d.Next() {
		switch d.Type() {
		case bitsetNoMask:
			noMask = true
		case bitsetBits:
			d.Nested(b.list)
		}
	}
	for i := range *b {
		(*b)[i].On = (*b)[i].On || noMask
	}
	return nil
}

func (b *Bits) list(d *netlink.AttributeDecoder) error {
	for d.Next() {
		if d.Type() != bitsBit {
			continue
		}
		var one Bit
		d.Nested(func(d *netlink.AttributeDecoder) error {
			for d.Next() {
				switch d.Type() {
				case bitName:
					one.Name = d.String()
				case bitValue:
					one.On = true
				}
			}
			return nil
		})
		*b = append(*b, one)
	}
	return nil
}
