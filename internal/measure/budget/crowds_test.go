package budget

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestNewcomersFindASlot: one who has many sessions does not keep others with a
// key out, at another source or with another key.
func TestNewcomersFindASlot(t *testing.T) {
	b := New(Config{Server: Limits{Sessions: 8}, AllAnonymous: Limits{Sessions: -1}})
	for _, s := range []struct {
		what string
		from int
		key  string
		want int // sessions until one is refused
		says string
	}{
		{"one key at one source", 0, "anna", 5, "5 sessions, 5 of them yours"},
		{"the same key at another source", 1, "anna", 1, "6 sessions with your key"},
		{"another key at the first source", 0, "ben", 1, "7 sessions, 1 of them yours"},
		{"another key at another source", 2, "ben", 1, "8 sessions, 1 of them yours"},
		{"the ninth session of eight", 3, "ben", 0, "8 sessions, its limit"},
	} {
		got := 0
		var err error
		for ; err == nil && got < 20; got++ {
			_, err = b.Open(address(s.from), s.key)
		}
		if got--; got != s.want || !errors.Is(err, ErrSpent) || !strings.Contains(err.Error(), s.says) {
			t.Errorf("%s: %d sessions, want %d: %v", s.what, got, s.want, err)
		}
	}
}

// TestOneKeyLeavesRoomForOthers: a key that became known, used from ever so many
// sources, leaves a quarter of the sessions to the other keys; where there are less
// than four there is nothing to divide.
func TestOneKeyLeavesRoomForOthers(t *testing.T) {
	for sessions, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 5: 4, 8: 6, 64: 48} {
		b := New(Config{Server: Limits{Sessions: sessions}, AllAnonymous: Limits{Sessions: -1}})
		var in []*Share
		for i := range 1000 {
			if s, err := b.Open(address(i), "anna"); err == nil {
				in = append(in, s)
			} else if r, ok := errors.AsType[*Refusal](err); !ok || !r.Later() {
				t.Fatal(err)
			}
		}
		must.Equal(t, len(in), want, "%d sessions: one key got", sessions)
		for i := range sessions - want {
			must.OK(t, must.Err(b.Open(address(i), "ben")), "%d sessions: another key's session %d", sessions, i+1)
		}
		in[0].Close()
		in[0].Close()
		must.OK(t, must.Err(b.Open(address(2000), "anna")), "%d sessions: the key where one of its sessions went", sessions)
	}
}

// TestKeysBesideAnonymous: what anonymous clients may take is not divided among keys, so
// that anonymous clients and one key together leave the other keys theirs.
func TestKeysBesideAnonymous(t *testing.T) {
	b := New(Config{
		Server: Limits{Sessions: 64}, AllAnonymous: Limits{Sessions: 16},
		Anonymous: Part{Source: Limits{Sessions: 2}},
	})
	took := func(key string, sources int) (n int) {
		for i := range sources {
			for {
				if _, err := b.Open(address(i), key); err != nil {
					break
				}
				n++
			}
		}
		return n
	}
	n := took("anna", 100)
	must.True(t, n == 36, "one key has %d sessions, want three quarters of the 48 that anonymous clients leave", n)
	n = took("", 7)
	must.True(t, n == 14, "seven anonymous clients have %d sessions, want two each", n)
	n = took("", 100)
	must.True(t, n == 2, "other anonymous clients have %d sessions more, want 2", n)
	n = took("ben", 100)
	must.True(t, n == 12, "another key has %d sessions, want the 12 that are left", n)
}

// TestRecords: neither one address nor all without a key have more results kept than
// the ledger gives, key holders have theirs beside them, and no client is refused a
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
	must.Equal(t, b.Usage().Kinds[Records].Used(), 30, "records in use")
	now = now.Add(2 * time.Hour)
	must.True(t, count(1, 100, "") == 8, "nothing comes back")
	must.OK(t, (*Budget)(nil).Record(netip.Addr{}, ""))
}
