package device

import "testing"

func TestWakeOnLAN(t *testing.T) {
	for modes, want := range map[string]string{
		"none": "off", "magic": "magic", "ucast,mcast,magic": "unicast multicast magic", "magicsecure": "secureon", "filter": "off", "phy,filter": "phy",
	} {
		if got := WakeOnLAN(modes); got != want {
			t.Errorf("%q: %q, want %q", modes, got, want)
		}
	}
}
