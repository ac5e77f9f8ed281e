package main

import (
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestARefusalIsToldOnce: what a driver has not got, or does not do, is said once, by the
// error, and not beside it or in front of it again.
func TestARefusalIsToldOnce(t *testing.T) {
	t.Parallel()
	needRoot(t)
	n := newNetns(t)
	for setting, c := range map[string]struct{ says, out string }{
		// veth tells nothing of flow control, and takes no link mode.
		"nic.pause.rx=off":    {"the driver has no such setting", ""},
		"nic.media.speed=100": {"the driver has no such setting", "undone: all settings are back\n"},
		"nic.offload.lro=on":  {"the driver holds it fixed", "undone: all settings are back\n"},
	} {
		r := run(t, n.inside(t, "near", "set", setting, "--interface", "v0", "--for", "1s", "--state", n.state("near")))
		said := r.out + r.err
		for _, once := range []string{c.says, "unsupported operation", " of v0"} {
			must.True(t, strings.Count(said, once) == 1, "%s: %q is said %d times:\n%s", setting, once, strings.Count(said, once), said)
		}
		must.True(t, r.code == 4 && strings.HasSuffix(r.out, c.out) && (c.out != "" || r.out == ""), "%s: exit code %d\n%s\n%s", setting, r.code, r.out, r.err)
	}
}
