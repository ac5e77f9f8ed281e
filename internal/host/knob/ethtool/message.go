package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A message is a generic netlink header of four bytes and attributes. An
// attribute is its length and type, 16 bits each in the machine's byte order,
// and its value, padded to four bytes (Linux include/uapi/linux/netlink.h
// struct nlattr, genetlink.h struct genlmsghdr).
const (
	genlVersion  = 1
	genlHeader   = 4
	attrHeader   = 4
	flagNested   = 0x8000 // NLA_F_NESTED
	typeMask     = 0x3fff // NLA_TYPE_MASK
	attrHeaderID = 1      // ETHTOOL_A_*_HEADER of every group

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

// appendAttr adds an attribute with its padding.
func appendAttr(b []byte, id uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(attrHeader+len(value)))
	b = binary.NativeEndian.AppendUint16(b, id)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// walk calls each for every attribute in b. The type is without flags.
func walk(b []byte, each func(id uint16, value []byte) error) error {
	for len(b) >= attrHeader {
		size := int(binary.NativeEndian.Uint16(b))
		if size < attrHeader || size > len(b) {
			return errMessage
		}
		if err := each(binary.NativeEndian.Uint16(b[2:])&typeMask, b[attrHeader:size]); err != nil {
			return err
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	if len(b) != 0 {
		return errMessage
	}
	return nil
}

// encodeRequest makes the body of a message about device: header and the
// fields of f in the order of the group.
func encodeRequest(command uint8, device string, g group, f Fields) []byte {
	b := []byte{command, genlVersion, 0, 0}
	header := appendAttr(nil, headerDevName, append([]byte(device), 0))
	if command != g.get {
		header = appendAttr(header, headerFlags, binary.NativeEndian.AppendUint32(nil, flagOmitReply))
	}
	b = appendAttr(b, attrHeaderID|flagNested, header)
	for _, a := range g.attributes {
		if set, ok := f.Sets[a.name]; ok && a.kind == kindBitset {
			b = appendAttr(b, a.id|flagNested, encodeBitset(set))
		}
		n, ok := f.Numbers[a.name]
		switch {
		case ok && a.kind == kindU8:
			b = appendAttr(b, a.id, []byte{byte(n)})
		case ok && a.kind == kindU32:
			b = appendAttr(b, a.id, binary.NativeEndian.AppendUint32(nil, n))
		}
	}
	return b
}

// encodeBitset lists the bits that are to change, each with its new value.
func encodeBitset(s Bits) []byte {
	var list []byte
	for _, one := range s {
		entry := appendAttr(nil, bitName, append([]byte(one.Name), 0))
		if one.On {
			entry = appendAttr(entry, bitValue, nil)
		}
		list = appendAttr(list, bitsBit|flagNested, entry)
	}
	return appendAttr(nil, bitsetBits|flagNested, list)
}

// Decode reads the body of an answer about a group. Attributes that the group
// does not list are passed over.
func Decode(name string, body []byte) (Fields, error) {
	f := Fields{Numbers: map[string]uint32{}, Sets: map[string]Bits{}}
	g, known := groupByName(name)
	if !known || len(body) < genlHeader {
		return f, errMessage
	}
	err := walk(body[genlHeader:], func(id uint16, value []byte) error {
		for _, a := range g.attributes {
			if a.id == id {
				return f.decode(a, value)
			}
		}
		return nil
	})
	return f, err
}

func (f Fields) decode(a attribute, value []byte) error {
	switch {
	case a.kind == kindBitset:
		set, err := decodeBitset(value)
		f.Sets[a.name] = set
		return err
	case a.kind == kindU8 && len(value) >= 1:
		f.Numbers[a.name] = uint32(value[0])
	case a.kind == kindU32 && len(value) >= 4:
		f.Numbers[a.name] = binary.NativeEndian.Uint32(value)
	default:
		return fmt.Errorf("attribute %s: %w", a.name, errMessage)
	}
	return nil
}

// decodeBitset reads a set in its verbose form. In a set without a mask every
// listed bit is on.
func decodeBitset(b []byte) (Bits, error) {
	set := Bits{}
	noMask := false
	err := walk(b, func(id uint16, value []byte) error {
		switch id {
		case bitsetNoMask:
			noMask = true
		case bitsetBits:
			return walk(value, func(id uint16, value []byte) error {
				if id != bitsBit {
					return nil
				}
				one, err := decodeBit(value)
				set = append(set, one)
				return err
			})
		}
		return nil
	})
	for i := range set {
		set[i].On = set[i].On || noMask
	}
	return set, err
}

func decodeBit(b []byte) (Bit, error) {
	var one Bit
	err := walk(b, func(id uint16, value []byte) error {
		switch {
		case id == bitName:
			one.Name = text(value)
		case id == bitValue:
			one.On = true
		}
		return nil
	})
	return one, err
}

// text is a string up to its final zero.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
