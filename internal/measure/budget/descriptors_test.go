package budget

import (
	"testing"

	"linerate/internal/must"
)

// TestDivide demands that no part of a server takes what another one has, however
// few descriptors there are.
func TestDivide(t *testing.T) {
	for _, n := range []int{48, 96, 256, 1024, 4096, 8192, 65536} {
		for listeners := range 4 {
			d := Divide(n, listeners)
			own := n - d.Sessions - d.Unknown - d.Friends - listeners*d.Listener
			must.True(t, own >= min(wholeOwn, n/3)-4, "%d descriptors, %d listeners: %+v leaves %d to the process itself", n, listeners, d, own)
			if d.Sessions < n/2 || d.Unknown < 1 || d.Friends < 1 || d.Listener < 1 {
				t.Errorf("%d descriptors, %d listeners: %+v", n, listeners, d)
			}
		}
	}
	if d := Divide(65536, 3); d != (Division{Sessions: 65536 - 1024 - 512 - 3*896 - 64, Unknown: 1024, Friends: 512, Listener: 896}) {
		t.Errorf("a server with descriptors enough: %+v", d)
	}
}
