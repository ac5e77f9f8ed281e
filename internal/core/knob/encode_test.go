package knob_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// sameValue compares a canonical value with what the place holds: a list with
// one value per queue is as good as its first.
func sameValue(want, got string) bool {
	return got == want || strings.HasPrefix(want, got+";") || strings.HasPrefix(got, want+";")
}

// TestEncodings: for each knob and system, what a value becomes in a native
// text, and that it reads back.
func TestEncodings(t *testing.T) {
	const modes = " (supported=10baseT/Half,100baseT/Full,1000baseT/Full)"
	for _, c := range []struct{ system, knob, raw, value, want string }{
		{"linux", "tcp.recv_buffer_max", "4096\t131072\t33554432", "65536", "4096 65536 65536"},
		{"linux", "tcp.recv_buffer_initial", "4096 131072 33554432", "262144", "4096 262144 33554432"},
		{"linux", "tcp.recv_buffer_initial", "4096 131072 33554432", "1024", "1024 1024 33554432"},
		{"linux", "tcp.recv_buffer_min", "4096 131072 33554432", "8192", "8192 131072 33554432"},
		{"linux", "tcp.metrics_cache", "0", "0", "1"},
		{"linux", "tcp.pmtud", "0", "0", "1"},
		{"freebsd", "tcp.window_scaling", "1", "0", "3"},
		{"freebsd", "tcp.timestamps", "1", "0", "2"},
		{"freebsd", "tcp.timestamps", "2", "1", "1"},
		{"freebsd", "tcp.window_scaling", "0", "1", "2"},
		{"darwin", "tcp.congestion_control", "0", "newreno", "1"},
		{"windows", "tcp.timestamps", "Disabled", "1", "Enabled"},
		{"windows", "tcp.slow_start_after_idle", "False", "1", "True"},
		{"windows", "link.frame_mtu", "1514", "9000", "9014"},
		{"windows", "link.frame_mtu", "1514", "4074", "4088"},
		{"windows", "tcp.pmtud", "absent", "0", "dword:0"},
		{"windows", "nic.pause.rx", "3", "0", "1"},
		{"windows", "nic.pause.tx", "0", "1", "1"},
		{"windows", "nic.media.speed", "0", "100", "4"},
		{"windows", "nic.media.speed", "0", "2500", "2500"},
		{"windows", "nic.media.duplex", "4", "half", "3"},
		{"windows", "nic.media.autoneg", "6", "1", "0"},
		{"linux", "nic.offload.tso", "a=on b=off c=on(fixed)", "0", "a=off b=off c=on(fixed)"},
		{"linux", "nic.offload.tso", "a=on b=off c=off(fixed)", "1", "a=on b=on c=off(fixed)"},
		{"linux", "rps", "rx-0=none rx-1=none rx-2=none", "0;1", "rx-0=0 rx-1=1 rx-2=0"},
		{"linux", "nic.media.speed", "autoneg=on advertise=1000baseT/Full" + modes, "100", "autoneg=off speed=100"},
		{"linux", "nic.media.speed", "autoneg=on advertise=a (supported=a; now=1000/full)", "10", "autoneg=off speed=10 duplex=full"},
		{"linux", "nic.media.duplex", "autoneg=on advertise=a (supported=a; now=100/full)", "half", "autoneg=off speed=100 duplex=half"},
		{"linux", "nic.media.autoneg", "autoneg=on advertise=a (now=100/half)", "0", "autoneg=off speed=100 duplex=half"},
		{"linux", "nic.offload.tso", "a=on(held) b=off", "0", "a=off b=off"},
		{"linux", "nic.offload.tso", "a=off(held)", "1", "a=on"},
		{"linux", "nic.media.duplex", "autoneg=off speed=100", "full", "autoneg=off speed=100 duplex=full"},
		{"linux", "nic.media.autoneg", "autoneg=off speed=100 duplex=full" + modes, "1", "autoneg=on advertise=10baseT/Half,100baseT/Full,1000baseT/Full"},
		{"linux", "nic.media.advertise", "autoneg=on advertise=1000baseT/Full" + modes, "100baseT/Full", "autoneg=on advertise=100baseT/Full"},
		{"linux", "qdisc", "default (noqueue)", "fq", "fq"},
		{"freebsd", "nic.ring.rx", "0 (driver: 1024)", "4096", "4096"},
		{"freebsd", "nic.media.speed", "autoselect", "1000", "1000baseT,full-duplex"},
		{"freebsd", "nic.media.speed", "1000baseT,full-duplex,rxpause", "0", "autoselect"},
		{"freebsd", "nic.media.duplex", "100baseTX,full-duplex", "half", "100baseTX"},
		{"freebsd", "nic.media.duplex", "10baseT/UTP", "full", "10baseT/UTP,full-duplex"},
		{"freebsd", "nic.media.duplex", "100baseTX", "auto", "autoselect"},
		{"freebsd", "nic.media.speed", "100baseTX", "10", "10baseT/UTP"}, // half duplex, as it was
		{"darwin", "nic.media.duplex", "100baseTX,full-duplex", "half", "100baseTX,half-duplex"},
		{"freebsd", "nic.pause.tx", "1000baseT,full-duplex,rxpause", "1", "1000baseT,full-duplex,rxpause,txpause"},
		{"darwin", "nic.pause.rx", "1000baseT,full-duplex", "1", "1000baseT,flow-control,full-duplex"},
		{"darwin", "nic.eee", "autoselect,energy-efficient-ethernet", "0", "autoselect"},
	} {
		k, ok := knob.NewIndex().ByID(model.KnobID(c.knob))
		must.Need(t, ok, "no knob %s", c.knob)
		got, err := k.Encode(c.system, c.raw, c.value)
		if got != c.want || err != nil {
			t.Errorf("%s %s: %q with %s is %q, %v, want %q", c.system, c.knob, c.raw, c.value, got, err, c.want)
			continue
		}
		if back, err := k.Decode(c.system, got); !sameValue(c.value, back) || err != nil {
			t.Errorf("%s %s: %q reads as %q, %v, want %s", c.system, c.knob, got, back, err, c.value)
		}
	}
}

func TestWhatCannotBeSaidIsUnsupported(t *testing.T) {
	for _, c := range []struct{ system, knob, raw, value string }{
		{"freebsd", "tcp.mtu_probing", "0", "2"}, {"darwin", "tcp.timestamps", "1", "2"}, {"freebsd", "tcp.timestamps", "1", "2"},
		{"darwin", "tcp.congestion_control", "0", "bbr"}, {"windows", "tcp.ecn", "Disabled", "2"}, {"windows", "nic.media.duplex", "0", "half"}, {"freebsd", "nic.media.duplex", "autoselect", "half"},
		{"linux", "nic.offload.lro", "rx-lro=off(fixed)", "1"}, {"linux", "nic.media.advertise", "autoneg=on advertise=a (supported=a)", "b"},
		{"freebsd", "nic.media.speed", "autoselect", "40000"}, {"linux", "nic.media.autoneg", "autoneg=off speed=10000 duplex=full", "1"},
		{"windows", "tcp.recv_buffer_max", "Normal", "2000000000"},
	} {
		k, _ := knob.NewIndex().ByID(model.KnobID(c.knob))
		must.Is(t, must.Err(k.Encode(c.system, c.raw, c.value)), errors.ErrUnsupported, "%s %s=%s", c.system, c.knob, c.value)
	}
}

// TestLevelIsTheLeastThatAllows: the autotuning level of Windows for a size.
func TestLevelIsTheLeastThatAllows(t *testing.T) {
	k, _ := knob.NewIndex().ByID("tcp.recv_buffer_max")
	for value, want := range map[string]string{"4096": "Disabled", "65535": "Disabled", "65536": "HighlyRestricted", "1048560": "Restricted", "16776960": "Normal", "16776961": "Experimental"} {
		must.Equal(t, must.Get(k.Encode("windows", "Normal", value))(t), want, "%s", value)
	}
}

// A switch that another feature holds reads as it is, not as was asked.
func TestHeldSwitchReadsAsItIs(t *testing.T) {
	k, _ := knob.NewIndex().ByID("nic.offload.tso")
	for raw, want := range map[string]string{"a=on(held) b=off": "0", "a=off(held)": "1", "a=on(held) b=on": "1", "a=on": "1"} {
		must.Equal(t, must.Get(k.Decode("linux", raw))(t), want, "%s reads as", raw)
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		want, got string
		holds     bool
	}{
		{"fq", "fq (handle 1:)", true}, {"fq", "fq", true}, {"fq", "fq_codel (handle 1:)", false}, {"fq (handle 1:)", "fq (handle 2:)", false},
		{"fq (handle 1:)", "fq", false}, {"4096 1 2", "4096\t1\t2", true}, {"a=off(fixed)", "a=off(fixed)", true}, {"a=off", "a=off(fixed)", false},
		// What was negotiated, and what another feature holds, changes by itself.
		{"autoneg=on advertise=a (supported=a; now=1000/full)", "autoneg=on advertise=a (supported=a; now=100/full)", true},
		{"autoneg=on advertise=a (supported=a; now=1000/full)", "autoneg=on advertise=a (supported=a)", true},
		{"autoneg=on advertise=a (now=1000/full)", "autoneg=on advertise=a", true},
		{"autoneg=on advertise=a (supported=a; now=1000/full)", "autoneg=on advertise=b (supported=a; now=1000/full)", false},
		{"a=on(held) b=off", "a=on b=off", true}, {"a=off", "a=off(held)", true}, {"a=on", "a=off(held)", false},
	} {
		must.Equal(t, knob.Holds(c.want, c.got), c.holds, "Holds(%q, %q)", c.want, c.got)
	}
}

// TestKnobsOfOnePlaceCompose: two halves of one text do not disturb each other.
func TestKnobsOfOnePlaceCompose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := []struct{ system, a, b, raw string }{
			{"freebsd", "tcp.window_scaling", "tcp.timestamps", rapid.SampledFrom([]string{"0", "1", "2", "3"}).Draw(t, "rfc1323")},
			{"windows", "nic.pause.rx", "nic.pause.tx", rapid.SampledFrom([]string{"0", "1", "2", "3"}).Draw(t, "flow")},
			{"freebsd", "nic.pause.rx", "nic.pause.tx", rapid.SampledFrom([]string{"autoselect", "1000baseT,full-duplex,txpause"}).Draw(t, "media")},
		}
		p := rapid.SampledFrom(pairs).Draw(t, "pair")
		a, _ := knob.NewIndex().ByID(model.KnobID(p.a))
		b, _ := knob.NewIndex().ByID(model.KnobID(p.b))
		va, vb := rapid.SampledFrom([]string{"0", "1"}).Draw(t, "a"), rapid.SampledFrom([]string{"0", "1"}).Draw(t, "b")
		one := must.Get(a.Encode(p.system, p.raw, va))(t)
		both := must.Get(b.Encode(p.system, one, vb))(t)
		gotA, _ := a.Decode(p.system, both)
		gotB, _ := b.Decode(p.system, both)
		must.Need(t, gotA == va && gotB == vb,
			"%s: %q with %s=%s and %s=%s is %q, which reads %s and %s", p.system, p.raw, p.a, va, p.b, vb, both, gotA, gotB)
	})
}

// FuzzDecode: no native text of any system breaks a reader, and what is read
// can be written into it again.
func FuzzDecode(f *testing.F) {
	for _, raw := range []string{"1 2 3", "a=on b=off(fixed)", "autoneg=on advertise=x (supported=x)", "1000baseT,full-duplex", "dword:1", "absent", "fq (handle 1:)", "Enabled"} {
		f.Add(raw)
	}
	all := knob.Catalogue()
	f.Fuzz(func(_ *testing.T, raw string) {
		for _, k := range all {
			for system := range k.Native {
				if v, err := k.Decode(system, raw); err == nil {
					_, _ = k.Encode(system, raw, v)
				}
			}
		}
	})
}
