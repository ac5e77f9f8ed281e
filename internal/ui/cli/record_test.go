package cli

import (
	"net/netip"
	"testing"
	"time"
)

// TestAnonymousRecordsAreBounded: neither one address nor all of them fill the disk.
func TestAnonymousRecordsAreBounded(t *testing.T) {
	r, now := &recorder{}, time.Now()
	count := func(addresses, tests int, at time.Time) (kept int) {
		a := netip.MustParseAddr("10.0.0.1")
		for range addresses {
			for range tests {
				if r.mayKeep(a, at) {
					kept++
				}
			}
			a = a.Next()
		}
		return kept
	}
	if n := count(1, 1000, now); n != recordsOfSource {
		t.Errorf("%d of one address", n)
	}
	if n := count(5000, 1, now); n != recordsAnHour-recordsOfSource || len(r.tests) > recordsAnHour {
		t.Errorf("%d of all, %d addresses remembered", n, len(r.tests))
	}
	if n := count(1, 1000, now.Add(time.Hour)); n != recordsOfSource {
		t.Errorf("%d an hour later", n)
	}
}
