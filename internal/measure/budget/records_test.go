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
	if n := count(1, 100, ""); n != 8 {
		t.Errorf("%d of one address", n)
	}
	if n := count(100, 3, ""); n != 12 {
		t.Errorf("%d of all beside them", n)
	}
	if n := count(1, 100, "ci"); n != 10 {
		t.Errorf("%d of a key", n)
	}
	must.OK(t, must.Err(b.Open(netip.MustParseAddr("10.0.0.1"), "")), "no session for who has no more records")
	if n := b.Usage().Kinds[Records].Used(); n != 30 {
		t.Errorf("%d are told", n)
	}
	if now = now.Add(2 * time.Hour); count(1, 100, "") != 8 {
		t.Error("nothing comes back")
	}
	must.OK(t, (*Budget)(nil).Record(netip.Addr{}, ""))
}
