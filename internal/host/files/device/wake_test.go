package device

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

func TestWakeOnLAN(t *testing.T) {
	for modes, want := range map[string]string{
		"none": "off", "magic": "magic", "ucast,mcast,magic": "unicast multicast magic", "magicsecure": "secureon", "filter": "off", "phy,filter": "phy",
	} {
		got, whole := WakeOnLAN(modes)
		must.True(t, got == want && whole != strings.Contains(modes, "filter"), "%q became %q, %v", modes, got, whole)
	}
}
