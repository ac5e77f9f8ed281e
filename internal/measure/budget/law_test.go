package budget

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestLaws runs random operations and compares with a ledger that forgets nothing: everything
// taken is given back, no limit is exceeded, anonymous clients never take the reserve, and a
// request that fits is granted.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		limit := rapid.Int64Range(0, 40)
		draw := func(name string) Limits {
			return Limits{
				Sessions: int(rapid.Int64Range(0, 6).Draw(t, name+" sessions")),
				Memory:   units.Bytes(limit.Draw(t, name+" memory")), Egress: units.Bytes(limit.Draw(t, name+" egress")),
			}
		}
		b := New(Config{
			Server: draw("server"), AllAnonymous: draw("anonymous clients"), Window: time.Hour, Now: c.now,
			Anonymous: Part{Session: draw("anonymous client's session"), Source: draw("anonymous client")},
			Keyed:     Part{Session: draw("key's session"), Source: draw("key")},
		})
		m := &ledger{b: b}
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			m.step(t, c)
			m.compare(t)
		}
		for _, s := range m.open {
			s.Close()
			s.Close()
		}
		for _, k := range b.Usage().Kinds[:held] {
			must.Need(t, k.Used() == 0, "%v: %d were not given back", k.Kind, k.Used())
		}
	})
}

// ledger is the exact reference for a budget.
type ledger struct {
	b     *Budget
	open  []*Share
	takes []taken
	sent  []sending
}

type taken struct {
	s    *Share
	n    int64
	give func()
}

type sending struct {
	who
	at time.Time
	n  int64
}

func (m *ledger) step(t *rapid.T, c *clock) {
	pick := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
	switch what := pick("step", 6); {
	case what == 0:
		from, key := address(pick("source", 3)), []string{"", "anna", "ben"}[pick("key", 3)]
		if s, err := m.b.Open(from, key); err == nil {
			m.open = append(m.open, s)
		} else if !errors.Is(err, ErrSpent) {
			t.Fatal(err)
		}
	case what == 1 && len(m.open) > 0:
		i := pick("close", len(m.open))
		m.open[i].Close()
		kept := m.takes[:0]
		for _, k := range m.takes {
			if k.s == m.open[i] {
				k.give()
			} else {
				kept = append(kept, k)
			}
		}
		m.takes = kept
		m.open = append(m.open[:i], m.open[i+1:]...)
	case what == 2 && len(m.open) > 0:
		s, n := m.open[pick("taker", len(m.open))], rapid.Int64Range(1, 20).Draw(t, "memory")
		fits := m.fits(s, n)
		give, err := s.Take(Amounts{Memory: units.Bytes(n)})
		must.Need(t, (err == nil) == fits, "take %d: %v, fits: %v", n, err, fits)
		if err == nil {
			m.takes = append(m.takes, taken{s, n, give})
		}
	case what == 3 && len(m.takes) > 0:
		i := pick("give", len(m.takes))
		m.takes[i].give()
		m.takes[i].give()
		m.takes = append(m.takes[:i], m.takes[i+1:]...)
	case what == 4 && len(m.open) > 0:
		s, n := m.open[pick("sender", len(m.open))], rapid.Int64Range(1, 10).Draw(t, "sent")
		err := s.Spend(units.Bytes(n))
		m.sent = append(m.sent, sending{s.who, c.Time, n})
		must.Need(t, !m.reached(s, c.Time) || err != nil, "spent more than the limit")
	case what == 5:
		c.Time = c.Add(time.Duration(pick("minutes", 50)) * time.Minute)
	}
}

// held returns what a session, its source, all anonymous clients and all clients hold.
func (m *ledger) held(s *Share) (session, source, anonymous, all int64) {
	for _, k := range m.takes {
		all += k.n
		if k.s.class == Anonymous {
			anonymous += k.n
		}
		if k.s.who == s.who {
			source += k.n
		}
		if k.s == s {
			session += k.n
		}
	}
	return session, source, anonymous, all
}

func (m *ledger) fits(s *Share, n int64) bool {
	session, source, anonymous, all := m.held(s)
	b := m.b
	return session+n <= b.session[s.class][Memory] && source+n <= b.source[s.class][Memory] && all+n <= b.server[Memory] &&
		(s.class == Keyed || anonymous+n <= b.anonymous[Memory])
}

// reached reports whether a limit was reached within the last window.
func (m *ledger) reached(s *Share, now time.Time) bool {
	var source, anonymous, keyed int64
	for _, x := range m.sent {
		if now.Sub(x.at) >= m.b.window {
			continue
		}
		if x.class == Anonymous {
			anonymous += x.n
		} else {
			keyed += x.n
		}
		if x.who == s.who {
			source += x.n
		}
	}
	b := m.b
	all := keyed + min(anonymous, b.anonymous[Egress])
	return source >= b.source[s.class][Egress] || all >= b.server[Egress] || s.class == Anonymous && anonymous >= b.anonymous[Egress]
}

func (m *ledger) compare(t *rapid.T) {
	var memory, sessions [2]int64
	for _, k := range m.takes {
		memory[k.s.class] += k.n
	}
	for _, s := range m.open {
		sessions[s.class]++
	}
	u := m.b.Usage().Kinds
	for kind, want := range map[Kind][2]int64{Memory: memory, Sessions: sessions, Descriptors: sessions} {
		got := u[kind]
		must.Need(t, got.Anonymous == want[Anonymous] && got.Keyed == want[Keyed], "%v: %+v, want %v", kind, got, want)
		must.Need(t, (got.Limit < 0 || got.Used() <= got.Limit) && (got.AllAnonymous < 0 || got.Anonymous <= got.AllAnonymous), "%v: over the limit: %+v", kind, got)
	}
}

// TestNewcomersFindASlot: a client with many sessions does not keep out clients at another
// source or with another key.
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
		got--
		must.True(t, got == s.want && errors.Is(err, ErrSpent) && strings.Contains(err.Error(), s.says), "%s: %d sessions, want %d: %v", s.what, got, s.want, err)
	}
}

// TestOneKeyLeavesRoomForOthers: a leaked key, used from any number of sources, leaves a
// quarter of the sessions to the other keys. With fewer than four sessions there is nothing to
// divide.
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

// TestKeysBesideAnonymous: what anonymous clients may take is not divided among keys, so that
// anonymous clients and one key together leave the other keys their part.
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
	must.Equal(t, took("anna", 100), 36, "one key has")
	must.Equal(t, took("", 7), 14, "seven anonymous clients have")
	must.Equal(t, took("", 100), 2, "other anonymous clients have")
	must.Equal(t, took("ben", 100), 12, "another key has")
}

// TestRecords: neither one address nor all anonymous clients store more results than the ledger
// allows, clients with keys have their own limit, and a full limit refuses no session.
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
