package ifioctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// struct ifreq is the name of 16 bytes and a union of 16; struct ifmediareq has its words
// after the name (FreeBSD sys/net/if.h; xnu bsd/net/if.h).
const (
	ifreqSize      = 32
	unionAt        = 16
	mediaCurrentAt = 16
	mediaStatusAt  = 24
	mediaActiveAt  = 28

	statusValid  = 1 // IFM_AVALID
	statusActive = 2 // IFM_ACTIVE
	flagUp       = 0x1
	flagRunning  = 0x40
)

func at(b []byte, where int) int32 { return int32(binary.NativeEndian.Uint32(b[where:])) }

func put(b []byte, where int, n int32) { binary.NativeEndian.PutUint32(b[where:], uint32(n)) }

// abi is what differs between the systems: request numbers (golang.org/x/sys
// zerrors_freebsd_amd64.go and zerrors_darwin_arm64.go, the same on both
// processors) and bits.
type abi struct {
	system                                 string
	getMTU, setMTU, getDeviceMTU, getFlags uint
	getCap, setCap                         uint
	getMedia, getXMedia, setMedia          uint
	mediaSize                              int
	capabilities                           []named
	media                                  []named
	options                                []named
}

// named is a bit or a number with its name.
type named struct {
	name string
	bits uint32
}

// freebsd is the interface of FreeBSD: sys/net/if.h IFCAP_*, and the media of
// sys/net/if_media.h with the names that ifconfig prints.
func freebsd() abi {
	return abi{
		system: "freebsd", getMTU: 0xc0206933, setMTU: 0x80206934, getFlags: 0xc0206911,
		getCap: 0xc020691f, setCap: 0x8020691e, getMedia: 0xc0306938, getXMedia: 0xc030698b, setMedia: 0xc0206937, mediaSize: 48,
		capabilities: []named{
			{"rxcsum", 0x1}, {"txcsum", 0x2}, {"vlanmtu", 0x8}, {"vlanhwtag", 0x10}, {"jumbomtu", 0x20}, {"polling", 0x40},
			{"tso4", 0x100}, {"tso6", 0x200}, {"lro", 0x400}, {"ucast", 0x800}, {"mcast", 0x1000}, {"magic", 0x2000},
			{"vlanhwfilter", 0x10000}, {"vlanhwtso", 0x40000}, {"linkstate", 0x80000}, {"rxcsum6", 0x200000}, {"txcsum6", 0x400000},
		},
		media: append(sharedMedia(),
			named{"10Gbase-LR", 18}, named{"10Gbase-SR", 19}, named{"10Gbase-CX4", 20}, named{"2500BaseSX", 21}, named{"10Gbase-Twinax", 22},
			named{"10Gbase-Twinax-Long", 23}, named{"10Gbase-LRM", 24}, named{"10Gbase-T", 26}, named{"40Gbase-CR4", 27}, named{"40Gbase-SR4", 28},
			named{"40Gbase-LR4", 29}, named{"1000Base-KX", 30}, named{"2500Base-T", extended(37)}, named{"5000Base-T", extended(38)},
			named{"25GBase-CR", extended(53)}, named{"25GBase-SR", extended(55)}, named{"100GBase-CR4", extended(47)}, named{"100GBase-SR4", extended(48)},
		),
		options: []named{
			{"full-duplex", 0x00100000}, {"half-duplex", 0x00200000}, {"flowcontrol", 0x00400000}, {"master", 0x100}, {"rxpause", 0x200}, {"txpause", 0x400},
			{"flag0", 0x01000000}, {"flag1", 0x02000000}, {"flag2", 0x04000000}, {"hw-loopback", 0x08000000},
		},
	}
}

// extended applies IFM_X of FreeBSD: the bits of a subtype above 31 are in 0x7800.
func extended(n uint32) uint32 { return n&0x1f | n&(extendedMask>>extendedShift)<<extendedShift }

const (
	extendedMask  = 0x7800
	extendedShift = 6
	etherType     = 0x20
	typeMask      = 0xe0
	subtypeMask   = 0x1f
)

// darwin is the interface of macOS: xnu bsd/net/if_private.h IFCAP_*, and the media that it
// shares with older BSDs. Media above 1 Gbit/s have other numbers there, which are shown and
// restored as numbers.
func darwin() abi {
	return abi{
		system: "darwin", getMTU: 0xc0206933, setMTU: 0x80206934, getDeviceMTU: 0xc0206944, getFlags: 0xc0206911,
		getCap: 0xc020695b, setCap: 0x8020695a, getMedia: 0xc02c6938, getXMedia: 0xc02c6948, setMedia: 0xc0206937, mediaSize: 44,
		capabilities: []named{
			{"rxcsum", 0x1}, {"txcsum", 0x2}, {"vlanmtu", 0x4}, {"vlanhwtag", 0x8}, {"jumbomtu", 0x10}, {"tso4", 0x20}, {"tso6", 0x40}, {"lro", 0x80},
		},
		media: sharedMedia(),
		options: []named{
			{"full-duplex", 0x00100000}, {"half-duplex", 0x00200000}, {"flow-control", 0x00400000}, {"energy-efficient-ethernet", 0x00800000},
			{"flag0", 0x01000000}, {"flag1", 0x02000000}, {"flag2", 0x04000000}, {"hw-loopback", 0x08000000},
		},
	}
}

// sharedMedia returns the media that have the same number on both systems.
func sharedMedia() []named {
	return []named{
		{"autoselect", 0}, {"manual", 1}, {"none", 2}, {"10baseT/UTP", 3}, {"10base2/BNC", 4}, {"10base5/AUI", 5}, {"100baseTX", 6}, {"100baseFX", 7},
		{"100baseT4", 8}, {"100baseVG", 9}, {"100baseT2", 10}, {"1000baseSX", 11}, {"10baseSTP", 12}, {"10baseFL", 13}, {"1000baseLX", 14},
		{"1000baseCX", 15}, {"1000baseT", 16},
	}
}

// subtype returns the part of an Ethernet media word that names the medium.
func (a abi) subtype(word uint32) uint32 {
	if a.system == "freebsd" {
		return word & (subtypeMask | extendedMask)
	}
	return word & subtypeMask
}

// mediaText returns a media word as text. Unnamed parts are written as numbers, so that the
// text yields the same word again.
func (a abi) mediaText(word uint32) (string, error) {
	if word&typeMask != etherType {
		return "", fmt.Errorf("media word %#x is not of Ethernet: %w", word, errors.ErrUnsupported)
	}
	sub := a.subtype(word)
	i := slices.IndexFunc(a.media, func(n named) bool { return n.bits == sub })
	rest := word &^ etherType &^ sub
	text := fmt.Sprintf("0x%x", sub)
	if i >= 0 {
		text = a.media[i].name
	}
	var words []string
	for _, o := range a.options {
		if rest&o.bits != 0 {
			words = append(words, o.name)
			rest &^= o.bits
		}
	}
	slices.Sort(words)
	if rest != 0 {
		words = append(words, fmt.Sprintf("0x%x", rest))
	}
	return strings.Join(append([]string{text}, words...), ","), nil
}

// mediaWord parses what mediaText writes.
func (a abi) mediaWord(text string) (uint32, error) {
	word := uint32(etherType)
	for i, one := range strings.Split(text, ",") {
		table := a.options
		if i == 0 {
			table = a.media
		}
		at := slices.IndexFunc(table, func(n named) bool { return n.name == one })
		var n uint32
		if at >= 0 {
			n = table[at].bits
		} else if _, err := fmt.Sscanf(one, "0x%x", &n); err != nil || fmt.Sprintf("0x%x", n) != one || n&typeMask != 0 {
			return 0, fmt.Errorf("media %q: %q is unknown to %s: %w", text, one, a.system, errors.ErrUnsupported)
		}
		if i == 0 && a.subtype(n) != n || i > 0 && a.subtype(n) != 0 {
			return 0, fmt.Errorf("media %q: want a medium and its options", text)
		}
		word |= n
	}
	return word, nil
}

// members returns the capabilities behind a name.
func (a abi) members(name string) []named {
	list := []string{name}
	switch name {
	case "tso":
		list = []string{"tso4", "tso6"}
	case "rxcsum":
		list = []string{"rxcsum", "rxcsum6"}
	case "txcsum":
		list = []string{"txcsum", "txcsum6"}
	case "wol":
		list = []string{"ucast", "mcast", "magic"}
	}
	var all []named
	for _, c := range a.capabilities {
		if slices.Contains(list, c.name) {
			all = append(all, c)
		}
	}
	return all
}

const fixed = "(fixed)"

// capText lists the members that the interface supports, with their states.
func (a abi) capText(name string, can, now uint32) (string, error) {
	var words []string
	for _, c := range a.members(name) {
		state := "off"
		if now&c.bits != 0 {
			state = "on"
		}
		if can&c.bits == 0 {
			state += fixed
		}
		words = append(words, c.name+"="+state)
	}
	return strings.Join(words, " "), nil
}

// capMask parses what capText writes, and returns the whole new mask.
func (a abi) capMask(name string, can, now uint32, text string) (uint32, error) {
	all := a.members(name)
	words := strings.Fields(text)
	if len(words) == 0 {
		return 0, fmt.Errorf("capabilities %q: nothing is named", text)
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		state, isFixed := strings.CutSuffix(value, fixed)
		i := slices.IndexFunc(all, func(n named) bool { return n.name == key })
		if i < 0 || state != "on" && state != "off" {
			return 0, fmt.Errorf("capabilities %q: want %s=on or off", text, all[0].name)
		}
		bits := all[i].bits
		switch {
		case (isFixed || can&bits == 0) && (state == "on") != (now&bits != 0):
			return 0, fmt.Errorf("capability %s: the interface has not got it: %w", key, errors.ErrUnsupported)
		case state == "on":
			now |= bits
		default:
			now &^= bits
		}
	}
	return now, nil
}

// wolText lists what wakes the machine, or none.
func (a abi) wolText(can, now uint32) (string, error) {
	var words []string
	possible := false
	for _, c := range a.members("wol") {
		possible = possible || can&c.bits != 0
		if now&c.bits != 0 {
			words = append(words, c.name)
		}
	}
	switch {
	case !possible:
		return "", fmt.Errorf("the interface cannot wake the machine: %w", errors.ErrUnsupported)
	case len(words) == 0:
		return "none", nil
	}
	return strings.Join(words, ","), nil
}

// wolMask parses what wolText writes, and returns the whole new mask.
func (a abi) wolMask(can, now uint32, text string) (uint32, error) {
	want := strings.Split(text, ",")
	if text == "none" {
		want = nil
	}
	for _, c := range a.members("wol") {
		now &^= c.bits
		if i := slices.Index(want, c.name); i >= 0 && can&c.bits != 0 {
			now |= c.bits
			want = slices.Delete(want, i, i+1)
		}
	}
	if len(want) > 0 {
		return 0, fmt.Errorf("wake on %q: the interface has no such event: %w", want[0], errors.ErrUnsupported)
	}
	return now, nil
}
