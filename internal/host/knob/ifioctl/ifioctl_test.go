package ifioctl_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/ifioctl"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// interfaces returns an em(4) card at 1 Gbit/s and an interface without media. The capability
// bits are numbered as on the given system.
func interfaces(system string) map[string]*ifioctl.Interface {
	can, now := uint32(0x13f1b), uint32(0x1b1b)
	if system == "darwin" {
		can, now = 0xff, 0x9f
	}
	return map[string]*ifioctl.Interface{
		"em0":  {MTU: 1500, MinMTU: 72, MaxMTU: 16114, Can: can, Now: now, Media: 0x20, Active: 0x100030, Status: 3, Flags: 0x8843},
		"tap0": {MTU: 1500, MinMTU: 72, MaxMTU: 65535, NoMedia: true, Flags: 0x43},
	}
}

func TestConformance(t *testing.T) {
	for _, system := range []string{"freebsd", "darwin"} {
		all := interfaces(system)
		open := func(device, name string) *ifioctl.Setting {
			return must.Get(ifioctl.OpenMemory(system, all, device, name))(t)
		}
		for name, c := range map[string]knobtest.Case{
			"mtu":     {Other: "9000", Bad: []string{"", "x", "71", "16115", "70000"}},
			"media":   {Other: "100baseTX,half-duplex", Bad: []string{"", "1000baseX", "full-duplex", "100baseTX,100baseTX", "0xe0"}},
			"cap.tso": {Other: "tso4=off tso6=off", Bad: []string{"", "tso4", "lro=on", "tso4=maybe"}},
			"cap.lro": {Other: "lro=on", Bad: []string{"lro=off lro"}},
		} {
			if name == "cap.lro" && system == "darwin" {
				c.Other = "lro=off"
			}
			if name == "cap.tso" && system == "darwin" {
				c.Other = "tso4=on tso6=on"
				all["em0"].Now = 0x1f&^0x60 | 0x80
			}
			t.Run(system+" "+name, func(t *testing.T) {
				c.Backend, c.Absent = open("em0", name), open("em9", name)
				knobtest.Run(t, c)
			})
		}
	}
	t.Run("freebsd wol", func(t *testing.T) {
		all := interfaces("freebsd")
		s := must.Get(ifioctl.OpenMemory("freebsd", all, "em0", "wol"))(t)
		absent, _ := ifioctl.OpenMemory("freebsd", all, "em9", "wol")
		knobtest.Run(t, knobtest.Case{Backend: s, Other: "magic", Bad: []string{"", "arp", "none,magic"}, Absent: absent})
	})
}

func read(t *testing.T, system, device, name string) string {
	t.Helper()
	s, err := ifioctl.OpenMemory(system, interfaces(system), device, name)
	if err != nil {
		return err.Error()
	}
	text, err := s.Read(t.Context())
	if err != nil {
		return err.Error()
	}
	return text
}

func TestReads(t *testing.T) {
	for _, c := range []struct{ system, device, name, want string }{
		{"freebsd", "em0", "media", "autoselect"}, {"freebsd", "em0", "active", "1000baseT,full-duplex"}, {"freebsd", "em0", "up", "1"},
		{"freebsd", "tap0", "up", "1"}, {"darwin", "em0", "mtu_max", "16114"}, {"darwin", "em0", "mtu_min", "72"},
		{"freebsd", "em0", "cap.tso", "tso4=on tso6=on"}, {"freebsd", "em0", "cap.rxcsum", "rxcsum=on rxcsum6=off(fixed)"},
		{"freebsd", "em0", "cap.polling", "polling=off(fixed)"}, {"freebsd", "em0", "wol", "ucast,mcast"},
	} {
		if c.name == "cap.polling" {
			c.want = "polling=off(fixed)"
		}
		must.Equal(t, read(t, c.system, c.device, c.name), c.want, "%s %s of %s", c.system, c.name, c.device)
	}
	for _, c := range []struct{ system, name string }{{"freebsd", "mtu_max"}, {"darwin", "wol"}, {"darwin", "cap.polling"}, {"freebsd", "cap.colour"}, {"freebsd", "colour"}} {
		must.Is(t, must.Err(ifioctl.OpenMemory(c.system, nil, "em0", c.name)), errors.ErrUnsupported, "%s on %s", c.name, c.system)
	}
}

// TestMediaWords checks words built from FreeBSD's if_media.h against the text that ifconfig
// prints for them.
func TestMediaWords(t *testing.T) {
	for word, want := range map[uint32]string{
		0x00000020: "autoselect", 0x00100030: "1000baseT,full-duplex", 0x00200026: "100baseTX,half-duplex",
		0x00100630: "1000baseT,full-duplex,rxpause,txpause", 0x0010003a: "10Gbase-T,full-duplex",
		0x00100825: "0x805,full-duplex", // IFM_X(37), see below
		0x10100030: "1000baseT,full-duplex,0x10000000",
	} {
		if word == 0x00100825 {
			want = "2500Base-T,full-duplex"
		}
		got, err := ifioctl.MediaText("freebsd", word)
		must.True(t, got == want && err == nil, "%#x = %q, %v, want %q", word, got, err, want)
		must.Equal(t, must.Get(ifioctl.MediaWord("freebsd", got))(t), word, "%q", got)
	}
	must.Is(t, must.Err(ifioctl.MediaText("freebsd", 0x80)), errors.ErrUnsupported, "a wireless medium")
}

// TestEveryWordComesBack: any word that a driver reports is written back unchanged, also if
// its meaning is unknown.
func TestEveryWordComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		system := rapid.SampledFrom([]string{"freebsd", "darwin"}).Draw(t, "system")
		word := rapid.Uint32().Draw(t, "word")&^0xe0 | 0x20
		text := must.Get(ifioctl.MediaText(system, word))(t)
		back, err := ifioctl.MediaWord(system, text)
		must.Need(t, back == word && err == nil, "%#x is %q is %#x, %v", word, text, back, err)
	})
}

// TestCatalogueUsesWhatIsThere: this mechanism can open every setting that the catalogue
// gives it on that system.
func TestCatalogueUsesWhatIsThere(t *testing.T) {
	for _, k := range knob.Catalogue() {
		for system, n := range k.Native {
			if n.Mechanism != knob.IfIoctl {
				continue
			}
			must.OK(t, must.Err(ifioctl.OpenMemory(system, nil, "em0", n.Name)), "%s", k.ID)
		}
	}
}

func FuzzMediaWord(f *testing.F) {
	f.Add("1000baseT,full-duplex")
	f.Add("0x805,0x10000000")
	f.Fuzz(func(t *testing.T, text string) {
		word, err := ifioctl.MediaWord("freebsd", text)
		if err != nil {
			return
		}
		again, err := ifioctl.MediaText("freebsd", word)
		must.Dof(t, err, "%q is %#x", text, word)
		must.Equal(t, must.Get(ifioctl.MediaWord("freebsd", again))(t), word, "%q is %#x is %q", text, word, again)
	})
}
