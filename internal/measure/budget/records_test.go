package budget

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestRecords: neither one address nor all without a key have more results kept than
// the ledger gives, key holders have theirs beside them, and nobody is refused a
// session for it.
func TestRecords(t *testing.T) {
	now := time.Unix(0, 0)
	b := New(Config{
		Server: Limits{Records: 30}, AllAnonymous: Limits{Records: 20}, Anonymous: Part{Source: Limits{Records: 8}},
		Window: time.Hour, Now: func() time.Time { return now },
	})
	count := func(addresses, tests int, key string) (kept int) {
		a := netip.MustParseAddr("10.0.0.1")
		for range addresses {
			for range tests {
				err := b.Record(a, key)
				if err == nil {
					kept++
				} else if !errors.Is(err, ErrSpent) {
					t.Fatal(err)
				}
			}
			a = a.Next()
		}
		return kept
	}
	must.Equal(t, count(1, 100, ""), 8, "of one address")
	must.Equal(t, count(100, 3, ""), 12, "of all beside them")
	must.Equal(t, count(1, 100, "ci"), 10, "of a key")
	must.OK(t, must.Err(b.Open(netip.MustParseAddr("10.0.0.1"), "")), "no session for who has no more records")
	must.Equal(t, b.Usage().Kinds[Records].Used(), 30, "are told")
	if now = now.Add(2 * time.Hour); count(1, 100, "") != 8 {
		t.Error("nothing comes back")
	}
	must.OK(t, (*Budget)(nil).Record(netip.Addr{}, ""))
}
