package ethtool

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/must"
)

// recorded reads an answer of a real kernel: the body of the generic netlink message in
// hexadecimal. Lines with # name its origin.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", "linux-6.18", name+".hex")))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	return must.Get(hex.DecodeString(digits.String()))(t)
}

func reply(t testing.TB, name, of string) Fields {
	t.Helper()
	return must.Get(Decode(of, recorded(t, name)))(t)
}

// setting is a Setting without a kernel.
func setting(t *testing.T, name string) *Setting {
	t.Helper()
	return must.Get(Open("eth0", name))(t)
}

func TestRecordedAnswers(t *testing.T) {
	for _, c := range []struct{ file, setting, want string }{
		{"virtio-rings", "rings.rx", "256"},
		{"virtio-rings", "rings.tx-max", "256"},
		{"virtio-channels", "channels.combined", "1"},
		{"virtio-channels", "channels.combined-max", "1"},
		{"virtio-coalesce", "coalesce.rx-frames", "1"},
		{"virtio-coalesce", "coalesce.adaptive-rx", "0"},
		{"virtio-features", "features.tso", "tx-tcp-segmentation=on tx-tcp6-segmentation=on"},
		{"virtio-features", "features.lro", "rx-lro=off(fixed)"},
		{"virtio-features", "features.rx-checksum", "rx-checksum=on(fixed)"},
		{"virtio-features", "features.tx-checksum", "tx-checksum-ipv4=off(fixed) tx-checksum-ip-generic=on tx-checksum-ipv6=off(fixed)"},
		{"virtio-linkmodes", "linkmodes.mode", "autoneg=off"},
		{"tap-linkmodes", "linkmodes.mode", "autoneg=off speed=10000 duplex=full"},
		{"tap-linkmodes", "linkmodes.speed", "10000"},
		{"tap-linkinfo", "linkinfo.port", "tp"},
		{"veth-channels", "channels.rx", "1"},
		{"veth-channels", "channels.rx-max", "2"},
		{"veth-features", "features.gro", "rx-gro=off"},
		{"veth-features", "features.tx-nocache-copy", "tx-nocache-copy=off"},
	} {
		of, _, _ := strings.Cut(c.setting, ".")
		must.Equal(t, must.Get(setting(t, c.setting).text(reply(t, c.file, of)))(t), c.want, "%s in %s", c.setting, c.file)
	}
	must.Fail(t, must.Err(setting(t, "linkmodes.speed").text(reply(t, "virtio-linkmodes", "linkmodes"))), "a link of unknown speed has a speed")
	must.Is(t, must.Err(setting(t, "features.no-such").text(reply(t, "veth-features", "features"))), errors.ErrUnsupported, "an unknown feature")
	must.Is(t, must.Err(setting(t, "rings.rx-mini").text(reply(t, "virtio-rings", "rings"))), errors.ErrUnsupported, "a ring that the driver has not")
}

// TestRequestsAreWhatTheKernelTook compares linerate's messages with recorded ones, which the
// kernel accepted from this code and from ethtool(8) alike.
func TestRequestsAreWhatTheKernelTook(t *testing.T) {
	f := reply(t, "veth-features", "features")
	changes := must.Get(setting(t, "features.tso").changes(f, "tx-tcp-segmentation=off tx-tcp6-segmentation=on"))(t)
	g, _ := groupByName("features")
	want := "0c010000" + // FEATURES_SET, version 1
		"18000180" + "09000200" + "65746830" + "00000000" + "08000300" + "02000000" + // header: eth0, no answer
		"48000380" + "44000380" + // wanted, bits
		"1c000180" + "18000200" + hex.EncodeToString([]byte("tx-tcp-segmentation\x00")) + // off: no value
		"24000180" + "19000200" + hex.EncodeToString([]byte("tx-tcp6-segmentation\x00")) + "000000" + "04000300" // on
	must.Equal(t, hex.EncodeToString(must.Get(encodeRequest(g.set, "eth0", g, changes))(t)), want, "FEATURES_SET")
	g, _ = groupByName("coalesce")
	got := must.Get(encodeRequest(g.set, "eth0", g, Fields{Numbers: map[string]uint32{"rx-usecs": 50, "adaptive-rx": 0}}))(t)
	want = "14010000" + "18000180" + "09000200" + "65746830" + "00000000" + "08000300" + "02000000" + "08000200" + "32000000" + "05000b00" + "00000000"
	must.Equal(t, hex.EncodeToString(got), want, "COALESCE_SET =\n%x, want\n%s", got, want)
}

// modesOf returns a negotiating card, made up from the kernel's UAPI, as no virtual device
// has one.
func modesOf(autoneg uint32, on ...string) Fields {
	all := []string{"10baseT/Half", "10baseT/Full", "100baseT/Half", "100baseT/Full", "1000baseT/Full", "Autoneg", "TP", "MII", "Pause"}
	var ours Bits
	for _, name := range all {
		ours = append(ours, Bit{Name: name, On: slices.Contains(on, name)})
	}
	return Fields{Numbers: map[string]uint32{"autoneg": autoneg, "speed": 1000, "duplex": 1}, Sets: map[string]Bits{"ours": ours}}
}

func TestLinkModesOfANegotiatingCard(t *testing.T) {
	s := setting(t, "linkmodes.mode")
	supported := "(supported=10baseT/Half,10baseT/Full,100baseT/Half,100baseT/Full,1000baseT/Full; now=1000/full)"
	f := modesOf(1, "100baseT/Full", "1000baseT/Full", "Autoneg", "TP", "Pause")
	raw, err := s.text(f)
	want := "autoneg=on advertise=100baseT/Full,1000baseT/Full " + supported
	must.True(t, raw == want && err == nil, "text = %q, %v, want %q", raw, err, want)
	back := must.Get(s.changes(f, raw))(t)
	for _, one := range back.Sets["ours"] {
		must.Equal(t, one.On, one.Name == "100baseT/Full" || one.Name == "1000baseT/Full", "written back, %s", one.Name)
		must.True(t, isMode(one.Name), "%s is no mode and would be changed", one.Name)
	}
	down := modesOf(1, "1000baseT/Full")
	down.Numbers["speed"] = unknownSpeed
	raw, _ = s.text(down)
	must.True(t, !strings.Contains(raw, "now="), "a link without carrier: %q", raw)
	forced, err := s.changes(f, "autoneg=off speed=100 duplex=half")
	diff := cmp.Diff(map[string]uint32{"autoneg": 0, "speed": 100, "duplex": 0}, forced.Numbers)
	must.True(t, diff == "" && err == nil, "forced: %v\n%s", err, diff)
	for _, bad := range []string{"", "autoneg=on", "autoneg=maybe", "autoneg=off", "autoneg=off speed=100", "autoneg=off speed=0 duplex=full", "autoneg=on advertise=TP", "nonsense"} {
		must.Fail(t, must.Err(s.changes(f, bad)), "%q was accepted", bad)
	}
	must.Is(t, must.Err(s.changes(f, "autoneg=on advertise=10000baseT/Full")), errors.ErrUnsupported, "a mode that the card has not")
	must.OK(t, modeKnown(f), "a mode that is known")
	err = modeKnown(reply(t, "virtio-linkmodes", "linkmodes"))
	must.True(t, errors.Is(err, errors.ErrUnsupported), "a change of an unknown mode = %v, want it refused: it could not be put back", err)
	// a forced link that is now down: its old mode is known, and can be written
	lost := modesOf(0, "100baseT/Half", "1000baseT/Full")
	lost.Numbers["speed"] = unknownSpeed
	back, err = s.changes(lost, "autoneg=on advertise=1000baseT/Full")
	must.True(t, err == nil && back.Numbers["autoneg"] == 1, "back from a forced link that is down: %v, %v", back, err)
}

// TestWake uses the set of a card made up from the kernel's UAPI.
func TestWake(t *testing.T) {
	s := setting(t, "wol.modes")
	f := Fields{Sets: map[string]Bits{"modes": {{Name: "phy"}, {Name: "ucast"}, {Name: "magic", On: true}}}}
	must.Equal(t, must.Get(s.text(f))(t), "magic", "text")
	c, err := s.changes(f, "phy,ucast")
	want := (Bits{{Name: "phy", On: true}, {Name: "ucast", On: true}, {Name: "magic"}})
	must.True(t, slices.Equal(c.Sets["modes"], want) && err == nil, "changes = %v, %v", c.Sets["modes"], err)
	c, err = s.changes(f, "none")
	must.True(t, err == nil && !c.Sets["modes"].Is("magic"), "none = %v, %v", c, err)
	must.Is(t, must.Err(s.changes(f, "arp")), errors.ErrUnsupported, "an event that the device has not")
	must.Is(t, must.Err(s.text(Fields{})), errors.ErrUnsupported, "no events")
}

func TestNumbersAreBounded(t *testing.T) {
	rings := reply(t, "virtio-rings", "rings")
	for raw, ok := range map[string]bool{"128": true, "256": true, "257": false, "-1": false, "x": false, "": false, "4294967296": false} {
		_, err := setting(t, "rings.rx").changes(rings, raw)
		must.True(t, (err == nil) == ok, "rings.rx %q: %v", raw, err)
	}
	must.Is(t, must.Err(setting(t, "rings.rx-max").changes(rings, "1")), errors.ErrUnsupported, "a maximum was accepted")
	must.Fail(t, must.Err(setting(t, "coalesce.adaptive-rx").changes(reply(t, "virtio-coalesce", "coalesce"), "2")), "a switch took 2")
	must.Is(t, must.Err(setting(t, "features.lro").changes(reply(t, "veth-features", "features"), "rx-lro=on")), errors.ErrUnsupported, "a fixed feature")
	for _, name := range []string{"", "rings", "rings.", "rings.colour", "colour.rx", "features."} {
		must.Is(t, must.Err(Open("eth0", name)), errors.ErrUnsupported, "Open(%q)", name)
	}
	must.Fail(t, must.Err(Open("a-name-that-is-too-long", "rings.rx")), "a name longer than the kernel's was accepted")
}

// TestInForce: a feature that is wanted and not active is reported.
func TestInForce(t *testing.T) {
	f := reply(t, "veth-features", "features")
	must.OK(t, inForce(f, "tso"), "inForce")
	f.Sets["active"] = slices.DeleteFunc(f.Sets["active"], func(b Bit) bool { return b.Name == "tx-tcp-segmentation" })
	must.Say(t, inForce(f, "tso"), "tx-tcp-segmentation was set to on and stays off", "inForce")
}

// TestWordsRoundTrip: decoding inverts the encoding of the older request.
func TestWordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom(groups()).Filter(func(g group) bool { return g.ioctlGet != 0 }).Draw(t, "group")
		f := Fields{Numbers: map[string]uint32{}}
		for _, w := range g.words {
			if w != "" {
				f.Numbers[w] = rapid.Uint32().Draw(t, w)
			}
		}
		b := encodeWords(g, g.ioctlSet, nil, f)
		back := must.Get(decodeWords(g, b))(t)
		must.Need(t, cmp.Equal(back.Numbers, f.Numbers), "%v became %v", f.Numbers, back.Numbers)
		must.Need(t, must.Err(decodeWords(g, b[:len(b)-1])) != nil, "a short struct was read")
	})
}

// TestMessagesRoundTrip: an encoded request decodes as an answer of the same group, which has
// the same form.
func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom(groups()).Draw(t, "group")
		f := Fields{Numbers: map[string]uint32{}, Sets: map[string]Bits{}}
		for _, a := range g.attributes {
			switch a.kind {
			case kindU8:
				f.Numbers[a.name] = uint32(rapid.Byte().Draw(t, a.name))
			case kindU32:
				f.Numbers[a.name] = rapid.Uint32().Draw(t, a.name)
			case kindBitset:
				set := Bits{}
				for range rapid.IntRange(0, 5).Draw(t, "bits") {
					set = append(set, Bit{Name: rapid.StringMatching(`[a-z0-9-]{1,30}`).Draw(t, "name"), On: rapid.Bool().Draw(t, "on")})
				}
				f.Sets[a.name] = set
			}
		}
		body := must.Get(encodeRequest(g.get, "eth0", g, f))(t)
		cut, err := Decode(g.name, body[:rapid.IntRange(0, len(body)-4).Draw(t, "cut")]) // except for padding
		must.Need(t, err != nil || !cmp.Equal(f, cut), "a part of the answer says all")
		diff := cmp.Diff(f, must.Get(Decode(g.name, body))(t))
		must.Need(t, diff == "", "%v", diff)
	})
}

func FuzzDecodeReply(f *testing.F) {
	for _, name := range []string{"virtio-rings", "veth-features", "tap-linkmodes", "virtio-coalesce"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, g := range groups() {
			got, err := Decode(g.name, b)
			if err == nil && g.name == features {
				_, _ = featureText(got, "tso")
			}
			if err == nil {
				_ = modeText(got)
			}
			_, _ = decodeWords(g, b)
		}
	})
}

func FuzzDecodeFeatures(f *testing.F) {
	f.Add(make([]byte, 8+16), make([]byte, 12+64))
	f.Fuzz(func(_ *testing.T, b, s []byte) {
		names, err := decodeStrings(s)
		if err != nil {
			names = []string{"a", "b"}
		}
		_, _ = decodeFeatures(b, names)
	})
}

// throttled is a card whose driver treats some delays as modes.
type throttled struct {
	name  string
	usecs uint32
	reads int
}

func (c *throttled) get(string, group) (Fields, error) {
	c.reads++
	return Fields{Numbers: map[string]uint32{"rx-usecs": c.usecs}}, nil
}

func (c *throttled) set(_ string, _ group, f Fields) error {
	c.usecs = f.Numbers["rx-usecs"]
	return nil
}

func (c *throttled) driver(string) string { return c.name }

// TestModesNameTheirDriver: a delay that is a mode for its driver names that driver, can be
// written back as read, and is refused before the driver has to.
func TestModesNameTheirDriver(t *testing.T) {
	for _, c := range []struct{ driver, read, refused string }{{"e1000e", "3 (e1000e)", "takes 0 (no moderation), 1 (mode dynamic)"}, {"virtio_net", "3", ""}} {
		card := &throttled{c.driver, 3, 0}
		s := setting(t, "coalesce.rx-usecs")
		s.open = func() (transport, error) { return card, nil }
		raw, err := s.Read(t.Context())
		must.True(t, raw == c.read && err == nil, "%s reads %q, %v", c.driver, raw, err)
		err = s.Write(t.Context(), "50")
		must.True(t, err == nil && card.usecs == 50, "%s: wrote 50, holds %d, %v", c.driver, card.usecs, err)
		err = s.Write(t.Context(), raw)
		must.True(t, err == nil && card.usecs == 3, "%s: wrote %q back, holds %d, %v", c.driver, raw, card.usecs, err)
		err = s.Check(t.Context(), "2")
		must.True(t, (err != nil) == (c.refused != "") && (err == nil || strings.Contains(err.Error(), c.refused)), "%s: 2 is checked as %v", c.driver, err)
	}
	must.Fail(t, must.Err(setting(t, "rings.rx").changes(Fields{Numbers: map[string]uint32{"rx": 1}}, "3 (e1000e)")), "a ring takes the name of a driver")
}

// TestRemember: a group of settings is read once, and each setting has its value.
func TestRemember(t *testing.T) {
	card := &throttled{"virtio_net", 3, 0}
	open := remember(func() (transport, error) { return card, nil })
	for _, name := range []string{"coalesce.rx-usecs", "coalesce.tx-usecs", "coalesce.rx-usecs"} {
		text, err := must.Get(open("eth0", name))(t).Read(t.Context())
		must.True(t, text == "3" || name == "coalesce.tx-usecs" && err != nil, "%s: %q, %v", name, text, err)
	}
	must.Equal(t, card.reads, 1, "reads")
}
