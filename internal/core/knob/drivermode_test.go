package knob_test

import (
	"strings"
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/must"
)

// TestDriverModes: what ethtool calls 3 us is a mode to the driver e1000e, is said to be
// one, and is the number that it was in every text that holds it. The values that the
// driver takes are those that it took in a machine.
func TestDriverModes(t *testing.T) {
	plain, ok := knob.NewIndex().ByID("nic.coalesce.rx_usecs")
	must.Need(t, ok, "no such knob")
	for _, c := range []struct{ raw, text string }{
		{"3 (e1000e)", "3 (mode dynamic, conservative)"}, {"1 (e1000e)", "1 (mode dynamic)"}, {"0 (e1000e)", "0 (no moderation)"},
		{"4 (e1000)", "4 (mode simplified balancing)"}, {"50 (e1000e)", "50 µs"}, {"3", "3 µs"}, {"3 (ixgbe)", "3 µs"},
	} {
		must.Equal(t, must.Get(plain.Text("linux", c.raw))(t), c.text, "%q reads", c.raw)
		value, err := plain.Decode("linux", c.raw)
		back, err2 := plain.Encode("linux", c.raw, value)
		must.True(t, err == nil && err2 == nil && knob.Holds(back, c.raw) && !strings.Contains(back, "("),
			"%q is %q, and %q again: %v, %v", c.raw, value, back, err, err2)
	}
	of := plain.From("coalesce.rx-usecs of eth0 (e1000e)")
	got, want := of.Range("linux"), "0 (no moderation), 1 (mode dynamic), 3 (mode dynamic, conservative), 4 (mode simplified balancing), or 10 to 10000 µs"
	must.True(t, got == want, "range %q, want %q", got, want)
	must.Equal(t, plain.From("coalesce.rx-usecs of eth0").Range("linux"), "0 to 1000000 µs", "range of another driver")
	for text, fits := range map[string]bool{"0": true, "1": true, "2": false, "3": true, "4": true, "5": false, "9": false, "10": true, "10000": true, "10001": false} {
		_, err := of.Parse(text)
		must.True(t, (err == nil) == fits, "%s: %v", text, err)
	}
	for number, fits := range map[uint32]bool{0: true, 1: true, 2: false, 3: true, 4: true, 5: false, 9: false, 10: true, 50: true, 10000: true, 10001: false} {
		must.Equal(t, knob.DriverTakes("e1000e", "coalesce.rx-usecs", number) == nil, fits, "%d", number)
		must.OK(t, knob.DriverTakes("mlx5_core", "coalesce.rx-usecs", number), "another driver, %d", number)
	}
	must.Fail(t, knob.DriverTakes("igb", "coalesce.tx-usecs", 4), "igb has no mode 4")
	k, _ := knob.NewIndex().ByID("nic.ring.rx")
	must.True(t, k.From("rings.rx of eth0 (e1000e)").Named == nil, "a ring has modes")
}
