package route_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"testing"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/route"
)

func TestTowards(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	if to, _, err := route.Towards(t.Context(), netip.MustParseAddr("192.0.2.1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without routes: %q, %v", to, err)
	}
	network(t)
	for peer, want := range map[string]string{
		"10.7.0.2": "10.7.0.0/24", "192.0.2.1": "default", "::ffff:192.0.2.1": "default", "2001:db8:7::2": "2001:db8:7::/64", "2001:db8:8::1": "::/0",
	} {
		to, device, err := route.Towards(t.Context(), netip.MustParseAddr(peer))
		if to != want || device != "kt0" || err != nil {
			t.Errorf("%s: %q by %q, %v", peer, to, device, err)
			continue
		}
		m, err := route.Open(to+" dev "+device, "initcwnd")
		if err != nil {
			t.Errorf("%s: %v", peer, err)
			continue
		}
		if _, err := m.Read(t.Context()); err != nil {
			t.Errorf("%s: read a metric: %v", peer, err)
		}
	}
	if to, _, err := route.Towards(t.Context(), netip.MustParseAddr("10.7.0.1")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("to an address of this host: %q, %v", to, err) // by the local table
	}
}
