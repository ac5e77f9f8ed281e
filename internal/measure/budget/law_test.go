package budget

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

// TestLaws does anything in any order and compares with a ledger that forgets
// nothing: what was taken is given back, no limit is passed, anonymous clients never take
// the reserve, and what fits is given.
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

// ledger is the truth beside a budget.
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

// held returns what a session, its source, all anonymous clients and all together have.
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

// reached reports whether within the last window a limit was reached.
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
		must.Need(t, (got.Limit < 0 || got.Used() <= got.Limit) && (got.AllAnonymous < 0 || got.Anonymous <= got.AllAnonymous),
			"%v: over the limit: %+v", kind, got)
	}
}
