package knob

import "testing"

func TestModeUntold(t *testing.T) {
	const card = " (supported=10baseT/Half,100baseT/Full)"
	for _, c := range []struct {
		want, got string
		untold    bool
	}{
		{"autoneg=off speed=10 duplex=half", "autoneg=off" + card, true},
		{"autoneg=off speed=10 duplex=half" + card, "autoneg=off duplex=full" + card, true},
		{"autoneg=off speed=10 duplex=half", "autoneg=off speed=100 duplex=full" + card, false}, // it tells
		{"autoneg=off speed=10 duplex=half", "autoneg=on advertise=10baseT/Half" + card, false}, // it negotiates
		{"autoneg=on advertise=10baseT/Half", "autoneg=off" + card, false},                      // nobody forced that
		{"1500", "1400", false},
	} {
		if got := ModeUntold(c.want, c.got); got != c.untold {
			t.Errorf("%q for %q: %v", c.got, c.want, got)
		}
	}
}
