package device

import (
	"testing"

	"linerate/internal/must"
)

func TestWakeOnLAN(t *testing.T) {
	for modes, want := range map[string]string{
		"none": "off", "magic": "magic", "ucast,mcast,magic": "unicast multicast magic", "magicsecure": "secureon", "filter": "off", "phy,filter": "phy",
	} {
		must.Equal(t, WakeOnLAN(modes), want, "%q", modes)
	}
}
