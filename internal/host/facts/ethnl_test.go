package facts

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// answer reads an answer of Linux 6.18 that was recorded for the codec of the
// driver's knobs: hexadecimal with a comment, the generic netlink header first.
func answer(t testing.TB, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "knob", "ethtool", "testdata", "linux-6.18", name)))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	out := must.Get(hex.DecodeString(digits.String()))(t)
	return out
}

// set makes a bit set in the verbose form of Linux net/ethtool/bitset.c
// ethnl_put_bitset: with a mask, value marks the bits that are on.
func set(noMask bool, bits ...nlBit) []byte {
	var list []byte
	for i, one := range bits {
		entry := append(nlAttribute(1, []byte{byte(i), 0, 0, 0}), nlAttribute(bitName, append([]byte(one.name), 0))...)
		if one.on && !noMask {
			entry = append(entry, nlAttribute(bitValue, nil)...)
		}
		list = append(list, nlAttribute(1|nlaNested, entry)...)
	}
	b := nlAttribute(2, []byte{121, 0, 0, 0}) // size
	if noMask {
		b = append(b, nlAttribute(bitsetNoMask, nil)...)
	}
	return append(b, nlAttribute(bitsetBits|nlaNested, list)...)
}

// gigabit is the answer of a gigabit card whose partner is a switch of 100
// Mbit/s, in the form of net/ethtool/linkmodes.c linkmodes_fill_reply.
func gigabit() []byte {
	b := []byte{4, 1, 0, 0}
	b = append(b, nlAttribute(modesAutoneg, []byte{1})...)
	b = append(b, nlAttribute(modesOurs|nlaNested, set(false,
		nlBit{"10baseT/Half", true}, nlBit{"100baseT/Full", true}, nlBit{"1000baseT/Full", true}, nlBit{"2500baseT/Full", false},
		nlBit{"Autoneg", true}, nlBit{"TP", true}, nlBit{"Pause", true}))...)
	b = append(b, nlAttribute(modesPeer|nlaNested, set(true, nlBit{"10baseT/Half", true}, nlBit{"100baseT/Full", true}, nlBit{"Autoneg", true}))...)
	b = append(b, nlAttribute(modesSpeed, []byte{100, 0, 0, 0})...)
	return append(b, nlAttribute(modesDuplex, []byte{1})...)
}

func TestDecodeModes(t *testing.T) {
	m := must.Get(decodeModes(gigabit()))(t)
	must.True(t, m.Speed.Or(0) == 100e6 && m.Duplex.Or("") == "full" && m.Autoneg.Or(false), "%v %v %v", m.Speed, m.Duplex, m.Autoneg)
	for name, c := range map[string]struct{ got, want []string }{
		"supported":  {m.Supported.Or(nil), []string{"10baseT/Half", "100baseT/Full", "1000baseT/Full", "2500baseT/Full"}},
		"advertised": {m.Advertised.Or(nil), []string{"10baseT/Half", "100baseT/Full", "1000baseT/Full"}},
		"partner":    {m.Partner.Or(nil), []string{"10baseT/Half", "100baseT/Full"}},
	} {
		must.True(t, slices.Equal(c.got, c.want), "%s: %q, want %q", name, c.got, c.want)
	}
}

func TestDecodeRecordedModes(t *testing.T) {
	m, err := decodeModes(answer(t, "virtio-linkmodes.hex"))
	must.Do(t, err)
	must.True(t, !m.Speed.IsKnown() && !m.Duplex.IsKnown() && !m.Autoneg.Or(true) && !m.Partner.IsKnown() && m.Partner.Reason() != "", "%+v", m)
	m, err = decodeModes(answer(t, "tap-linkmodes.hex"))
	must.True(t, err == nil && m.Duplex.Or("") == "full" && m.Speed.Or(0) != 0, "%+v, %v", m, err)
}

func TestDecodeRecordedOffloads(t *testing.T) {
	all := must.Get(decodeOffloads(answer(t, "virtio-features.hex")))(t)
	find := func(name string) (model.Offload, bool) {
		i := slices.IndexFunc(all, func(o model.Offload) bool { return o.Name == name })
		if i < 0 {
			return model.Offload{}, false
		}
		return all[i], true
	}
	o, ok := find("tx-tcp-segmentation")
	must.True(t, ok && o.On && !o.Fixed, "tx-tcp-segmentation: %+v, %v", o, ok)
	if o, ok := find("highdma"); !ok || !o.On || !o.Fixed {
		t.Errorf("highdma: %+v, %v", o, ok)
	}
	if o, ok := find("tx-fcoe-segmentation"); ok {
		t.Errorf("what the driver has not got: %+v", o)
	}
}

func TestDecodeCut(t *testing.T) {
	whole := gigabit()
	for n := range len(whole) - 3 { // the last three bytes are padding
		m, err := decodeModes(whole[:n])
		must.True(t, err != nil || !m.Duplex.IsKnown(), "%d of %d bytes say all", n, len(whole))
	}
}

func FuzzDecodeModes(f *testing.F) {
	f.Add(gigabit())
	f.Add(answer(f, "virtio-linkmodes.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeModes(b)
		if err == nil && m.Speed.Or(1) <= 0 {
			t.Errorf("%+v", m)
		}
	})
}

func FuzzDecodeOffloads(f *testing.F) {
	f.Add(answer(f, "virtio-features.hex"))
	f.Add(answer(f, "veth-features.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := decodeOffloads(b)
		for _, o := range all {
			must.True(t, err != nil || o.Name != "" && (o.On || !o.Fixed), "%+v", o)
		}
	})
}
