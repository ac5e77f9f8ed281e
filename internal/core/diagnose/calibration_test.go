package diagnose

import (
	"testing"

	"linerate/internal/must"
)

// TestCalibrated: what was counted moves the confidence from what was expected towards
// the share that was right, in both directions, and no rule is ever certain.
func TestCalibrated(t *testing.T) {
	rules := map[string]bool{}
	for _, r := range Rules() {
		rules[r.ID] = true
		for _, whole := range []bool{true, false} {
			c, n, before := calibrated(r.ID, whole), judged()[key(r.ID, whole)], expected(r.ID, whole)
			must.True(t, c >= 0 && c < 1, "%s: %g", r.ID, c)
			if n.said == 0 {
				must.Equal(t, c, 0, "%s", r.ID)
				continue
			}
			share := float64(n.right) / float64(n.said)
			if n.right > n.said || c < min(before, share)-0.005 || c > max(before, share)+0.005 {
				t.Errorf("%s: %g, want between %g and %g", r.ID, c, before, share)
			}
		}
	}
	for name := range judged() {
		rule := name
		if len(name) > len(inPart) && name[len(name)-len(inPart):] == inPart {
			rule = name[:len(name)-len(inPart)]
		}
		must.True(t, rules[rule] || rule == "B37" || rule == "udp-send", "%s is no rule", name)
	}
}
