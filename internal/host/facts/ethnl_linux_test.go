package facts

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/knob/ethtool"
	"linerate/internal/must"
)

// recorded reads an answer of Linux 6.18: hexadecimal with a comment, the generic netlink
// header first.
func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("..", "knob", "ethtool", "testdata", "linux-6.18", name+".hex")))(t)
	var digits strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	return must.Get(hex.DecodeString(digits.String()))(t)
}

// gigabit is a gigabit card whose partner is a switch of 100 Mbit/s.
func gigabit() ethtool.Fields {
	return ethtool.Fields{
		Numbers: map[string]uint32{"autoneg": 1, "speed": 100, "duplex": 1},
		Sets: map[string]ethtool.Bits{
			"ours": {{Name: "10baseT/Half", On: true}, {Name: "100baseT/Full", On: true}, {Name: "1000baseT/Full", On: true}, {Name: "2500baseT/Full"},
				{Name: "Autoneg", On: true}, {Name: "TP", On: true}, {Name: "Pause", On: true}},
			"peer": {{Name: "10baseT/Half", On: true}, {Name: "100baseT/Full", On: true}, {Name: "Autoneg", On: true}},
		},
	}
}

func TestMediaOf(t *testing.T) {
	m := mediaOf(gigabit())
	must.True(t, m.Speed.Or(0) == 100e6 && m.Duplex.Or("") == "full" && m.Autoneg.Or(false), "%v %v %v", m.Speed, m.Duplex, m.Autoneg)
	for name, c := range map[string]struct{ got, want []string }{
		"supported":  {m.Supported.Or(nil), []string{"10baseT/Half", "100baseT/Full", "1000baseT/Full", "2500baseT/Full"}},
		"advertised": {m.Advertised.Or(nil), []string{"10baseT/Half", "100baseT/Full", "1000baseT/Full"}},
		"partner":    {m.Partner.Or(nil), []string{"10baseT/Half", "100baseT/Full"}},
	} {
		must.True(t, slices.Equal(c.got, c.want), "%s: %q, want %q", name, c.got, c.want)
	}
}

func TestRecordedMedia(t *testing.T) {
	m := mediaOf(must.Get(ethtool.Decode("linkmodes", recorded(t, "virtio-linkmodes")))(t))
	must.True(t, !m.Speed.IsKnown() && !m.Duplex.IsKnown() && !m.Autoneg.Or(true) && !m.Partner.IsKnown() && m.Partner.Reason() != "", "%+v", m)
	m = mediaOf(must.Get(ethtool.Decode("linkmodes", recorded(t, "tap-linkmodes")))(t))
	must.True(t, m.Duplex.Or("") == "full" && m.Speed.Or(0) != 0, "%+v", m)
}

func TestRecordedOffloads(t *testing.T) {
	all := offloadsOf(must.Get(ethtool.Decode("features", recorded(t, "virtio-features")))(t))
	find := func(name string) (model.Offload, bool) {
		i := slices.IndexFunc(all, func(o model.Offload) bool { return o.Name == name })
		if i < 0 {
			return model.Offload{}, false
		}
		return all[i], true
	}
	o, ok := find("tx-tcp-segmentation")
	must.True(t, ok && o.On && !o.Fixed, "tx-tcp-segmentation: %+v, %v", o, ok)
	o, ok = find("highdma")
	must.True(t, ok && o.On && o.Fixed, "highdma: %+v, %v", o, ok)
	o, ok = find("tx-fcoe-segmentation")
	must.True(t, !ok, "what the driver has not got: %+v", o)
}

func FuzzFields(f *testing.F) {
	for _, name := range []string{"virtio-linkmodes", "tap-linkmodes", "virtio-features", "veth-features"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		modes, err := ethtool.Decode("linkmodes", b)
		must.True(t, err != nil || mediaOf(modes).Speed.Or(1) > 0, "%+v", modes)
		all, err := ethtool.Decode("features", b)
		for _, o := range offloadsOf(all) {
			must.True(t, err != nil || o.Name != "" && (o.On || !o.Fixed), "%+v", o)
		}
	})
}
