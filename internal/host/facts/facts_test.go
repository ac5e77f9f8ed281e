package facts

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/host/knob/linkid"
	"linerate/internal/must"
)

func TestReadToLoopback(t *testing.T) {
	f := Read(t.Context(), nil, model.Far, "127.0.0.1:5299", "1.2.3")
	must.True(t, f.Host == model.Far && f.OS == runtime.GOOS && f.Arch == runtime.GOARCH && f.CPUs >= 1 && f.Version == "1.2.3" && f.Knobs == nil,
		"Read = %+v", f)
	if k, ok := f.Kernel.Get(); k == "" || !ok {
		t.Errorf("kernel unknown: %s", f.Kernel.Reason())
	}
	must.Equal(t, f.Address, "127.0.0.1", "address")
	if name, ok := f.Interface.Get(); !ok || !strings.HasPrefix(strings.ToLower(name), "lo") {
		t.Errorf("interface %q, unknown because %q", name, f.Interface.Reason())
	}
	mtu, ok := f.MTU.Get()
	must.True(t, mtu >= 1280 && ok, "MTU %d, unknown because %q", mtu, f.MTU.Reason())
	must.True(t, !f.LinkRate.IsKnown() && f.LinkRate.Reason() != "", "a loopback has a link rate: %v", f.LinkRate)
}

func TestReadWithoutPath(t *testing.T) {
	for peer, why := range map[string]string{"": "no peer", "name.invalid": "find the peer"} {
		f := Read(t.Context(), nil, model.Near, peer, "")
		must.True(t, !f.Interface.IsKnown() && strings.Contains(f.Interface.Reason(), why) && !f.MTU.IsKnown() && !f.Qdisc.IsKnown() && !f.LinkRate.IsKnown(), "peer %q: %+v", peer, f)
	}
}

func TestResolve(t *testing.T) {
	for peer, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "2001:db8::1": "2001:db8::1", "[2001:db8::1]:80": "2001:db8::1",
		"fe80::1%eth0": "fe80::1%eth0", "::ffff:192.0.2.1": "192.0.2.1",
	} {
		got, err := resolve(t.Context(), peer)
		must.True(t, got.String() == want && err == nil, "resolve(%q) = %v, %v, want %s", peer, got, err, want)
	}
}

func TestPortablePath(t *testing.T) {
	p := portablePath(t.Context(), netip.MustParseAddr("127.0.0.1"))
	must.True(t, p.address == "127.0.0.1" && p.device.IsKnown() && p.mtu.IsKnown() && !p.rate.IsKnown(), "portablePath = %+v", p)
	must.Fail(t, must.Err(linkid.Owner(netip.MustParseAddr("192.0.2.77"))), "an interface has an address for documentation (RFC 5737)")
}

func TestPathRate(t *testing.T) {
	nic := func(name string, rate fact.Of[units.BitRate]) []model.NIC {
		return []model.NIC{{Name: name, Media: model.Media{Speed: rate}}}
	}
	gigabit, none := fact.Known(units.BitRate(1e9), "media"), fact.Unknown[units.BitRate]("why")
	for name, c := range map[string]struct {
		p    path
		nics []model.NIC
		want units.BitRate
	}{
		"the path knows":         {path{device: fact.Known("em0", ""), rate: fact.Known(units.BitRate(1e8), "")}, nic("em0", gigabit), 1e8},
		"the interface knows":    {path{device: fact.Known("em0", ""), rate: none}, nic("em0", gigabit), 1e9},
		"another interface":      {path{device: fact.Known("em0", ""), rate: none}, nic("em1", gigabit), 0},
		"nobody knows":           {path{device: fact.Known("em0", ""), rate: none}, nic("em0", none), 0},
		"no interfaces are told": {path{device: fact.Known("em0", ""), rate: none}, nil, 0},
		"a radio":                {path{device: fact.Known("wl0", ""), rate: none}, []model.NIC{{Name: "wl0", Kind: fact.Known("wireless", ""), Media: model.Media{Speed: gigabit}}}, 0},
		"no path":                {unknownPath("why"), nic("em0", gigabit), 0},
	} {
		got := pathRate(c.p, c.nics)
		must.True(t, got.Or(0) == c.want && (got.IsKnown() || got.Reason() != ""), "%s: %v, %s", name, got, got.Reason())
	}
}
