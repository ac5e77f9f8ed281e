package ethtool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// The commands of the older request that need more than a table, of Linux
// include/uapi/linux/ethtool.h.
const (
	cmdGetStrings  = 0x1b // ETHTOOL_GSTRINGS
	cmdGetSetInfo  = 0x37 // ETHTOOL_GSSET_INFO
	cmdGetFeatures = 0x3a // ETHTOOL_GFEATURES
	cmdSetFeatures = 0x3b // ETHTOOL_SFEATURES
	stringFeatures = 4    // ETH_SS_FEATURES
	stringLen      = 32   // ETH_GSTRING_LEN
	maxStrings     = 1024 // far above the features of any kernel
)

// encodeWords returns the struct of a command: the command and its words. base is an answer
// to the get command whose other words are kept, nil for none.
func encodeWords(g group, command uint32, base []byte, f Fields) []byte {
	b := make([]byte, 4*(1+len(g.words)))
	copy(b, base)
	binary.NativeEndian.PutUint32(b, command)
	for i, name := range g.words {
		if n, ok := f.Numbers[name]; ok && name != "" {
			binary.NativeEndian.PutUint32(b[4*(1+i):], n)
		}
	}
	return b
}

// decodeWords decodes the struct of a get command.
func decodeWords(g group, b []byte) (Fields, error) {
	if len(b) < 4*(1+len(g.words)) {
		return Fields{}, errMessage
	}
	f := Fields{Numbers: map[string]uint32{}}
	for i, name := range g.words {
		if name != "" {
			f.Numbers[name] = binary.NativeEndian.Uint32(b[4*(1+i):])
		}
	}
	return f, nil
}

// decodeFeatures decodes struct ethtool_gfeatures: a count of blocks, and blocks of 32
// features with four masks: available, requested, active, never changed.
func decodeFeatures(b []byte, names []string) (Fields, error) {
	if len(b) < 8 {
		return Fields{}, errMessage
	}
	blocks := int(binary.NativeEndian.Uint32(b[4:]))
	if blocks < 0 || len(b) < 8+16*blocks {
		return Fields{}, errMessage
	}
	f := Fields{Sets: map[string]Bits{"hw": {}, "wanted": {}, "active": {}, "nochange": {}}}
	for i, name := range names {
		if i/32 >= blocks || name == "" {
			continue
		}
		for word, set := range []string{"hw", "wanted", "active", "nochange"} {
			mask := binary.NativeEndian.Uint32(b[8+16*(i/32)+4*word:])
			one := Bit{Name: name, On: mask&(1<<(i%32)) != 0}
			if one.On || set == "hw" { // as the netlink family reports it
				f.Sets[set] = append(f.Sets[set], one)
			}
		}
	}
	return f, nil
}

// encodeFeatures returns struct ethtool_sfeatures: blocks of two masks, the features to
// change and their new states.
func encodeFeatures(names []string, want Bits) ([]byte, error) {
	blocks := (len(names) + 31) / 32
	b := make([]byte, 8+8*blocks)
	binary.NativeEndian.PutUint32(b, cmdSetFeatures)
	binary.NativeEndian.PutUint32(b[4:], uint32(blocks))
	for _, one := range want {
		i := slices.Index(names, one.Name)
		if i < 0 {
			return nil, fmt.Errorf("feature %s: unknown to this kernel", one.Name)
		}
		at := 8 + 8*(i/32)
		valid, requested := binary.NativeEndian.Uint32(b[at:]), binary.NativeEndian.Uint32(b[at+4:])
		valid |= 1 << (i % 32)
		if one.On {
			requested |= 1 << (i % 32)
		}
		binary.NativeEndian.PutUint32(b[at:], valid)
		binary.NativeEndian.PutUint32(b[at+4:], requested)
	}
	return b, nil
}

// decodeStrings decodes the names of struct ethtool_gstrings.
func decodeStrings(b []byte) ([]string, error) {
	const head = 12
	if len(b) < head {
		return nil, errMessage
	}
	n := int(binary.NativeEndian.Uint32(b[8:]))
	if n < 0 || n > maxStrings || len(b) < head+n*stringLen {
		return nil, errMessage
	}
	names := make([]string, n)
	for i := range names {
		name, _, _ := bytes.Cut(b[head+i*stringLen:head+(i+1)*stringLen], []byte{0})
		names[i] = string(name)
	}
	return names, nil
}
