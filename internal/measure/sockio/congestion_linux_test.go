package sockio

import (
	"testing"

	"linerate/internal/must"
)

// TestAllowedCongestion: reno is always allowed (tcp_cong.c), and a name that
// would have a module loaded is not.
func TestAllowedCongestion(t *testing.T) {
	for name, want := range map[string]bool{"reno": true, "nosuch": false, "": false, "reno cubic": false} {
		must.Equal(t, AllowedCongestion(name), want, "%q", name)
	}
}
