package ethtool

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

// throttled is a card whose driver has modes among its delays.
type throttled struct {
	name  string
	usecs uint32
}

func (c *throttled) get(string, group) (Fields, error) {
	return Fields{Numbers: map[string]uint32{"rx-usecs": c.usecs}}, nil
}

func (c *throttled) set(_ string, _ group, f Fields) error {
	c.usecs = f.Numbers["rx-usecs"]
	return nil
}

func (c *throttled) driver(string) string { return c.name }

// TestModesNameTheirDriver: a delay that is a mode to its driver names that driver, can be
// written back as it was read, and is refused before the driver has to.
func TestModesNameTheirDriver(t *testing.T) {
	for _, c := range []struct{ driver, read, refused string }{{"e1000e", "3 (e1000e)", "takes 0 (no moderation), 1 (mode dynamic)"}, {"virtio_net", "3", ""}} {
		card := &throttled{c.driver, 3}
		s := setting(t, "coalesce.rx-usecs")
		s.open = func() (transport, error) { return card, nil }
		raw, err := s.Read(t.Context())
		must.True(t, raw == c.read && err == nil, "%s reads %q, %v", c.driver, raw, err)
		if err := s.Write(t.Context(), "50"); err != nil || card.usecs != 50 {
			t.Errorf("%s: wrote 50, holds %d, %v", c.driver, card.usecs, err)
		}
		if err := s.Write(t.Context(), raw); err != nil || card.usecs != 3 {
			t.Errorf("%s: wrote %q back, holds %d, %v", c.driver, raw, card.usecs, err)
		}
		err = s.Check(t.Context(), "2")
		must.True(t, (err != nil) == (c.refused != "") && (err == nil || strings.Contains(err.Error(), c.refused)),
			"%s: 2 is checked as %v", c.driver, err)
	}
	rings := setting(t, "rings.rx")
	must.Fail(t, must.Err(rings.changes(Fields{Numbers: map[string]uint32{"rx": 1}}, "3 (e1000e)")), "a ring takes the name of a driver")
}
