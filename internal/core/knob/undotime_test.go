package knob_test

import (
	"slices"
	"testing"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// TestUndoTime: what bounces a link takes up to 10 s each (EffectBounce), and the
// budget has room for it, whatever the number.
func TestUndoTime(t *testing.T) {
	for name, c := range map[string]struct {
		ids         []model.KnobID
		least, most time.Duration
	}{
		"nothing":               {nil, 10 * time.Second, time.Minute},
		"ten of the machine":    {slices.Repeat([]model.KnobID{"tcp.sack"}, 10), 20 * time.Second, time.Minute},
		"four that bounce":      {[]model.KnobID{"link.mtu", "nic.ring.rx", "nic.ring.tx", "nic.queues.combined"}, 60 * time.Second, 3 * time.Minute},
		"one that nobody knows": {[]model.KnobID{"of.tomorrow"}, 40 * time.Second, time.Minute},
		"more than anybody has": {slices.Repeat([]model.KnobID{"link.mtu"}, 256), knob.MaxUndoTime, knob.MaxUndoTime},
	} {
		if got := knob.NewIndex().UndoTime(c.ids...); got < c.least || got > c.most {
			t.Errorf("%s: %s, want %s to %s", name, got, c.least, c.most)
		}
	}
}
