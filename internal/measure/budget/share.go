package budget

import (
	"errors"
	"math"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/units"
)

// Share is one session's part of a budget. It is safe for concurrent use; a nil Share has no
// limits.
type Share struct {
	budget *Budget
	class  Class
	who    who
	entry  *entry
	opened time.Time
	held   [held]int64
	spent  [spent]int64
	closed bool
}

// Take takes all of a or nothing, until give is called or the share is closed. give is never
// nil and may be called more than once. An error wraps ErrSpent and says the numbers and what
// to do.
func (s *Share) Take(a Amounts) (give func(), err error) {
	none := func() {}
	if s == nil {
		return none, nil
	}
	if a.Descriptors < 0 || a.Memory < 0 || a.Disk < 0 || a.UDP < 0 || math.IsNaN(float64(a.UDP)) {
		return none, errors.New("take from the budget: a negative amount")
	}
	want := amounts{
		Descriptors: min(int64(a.Descriptors), unlimited), Memory: min(int64(a.Memory), unlimited),
		Disk: min(int64(a.Disk), unlimited), UDP: bits(a.UDP),
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return none, errors.New("take from the budget: the session has ended")
	}
	if err := b.take(s, want); err != nil {
		return none, err
	}
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !s.closed {
			b.give(s, want)
		}
	}), nil
}

// Spend counts bytes that were sent. An error, which wraps ErrSpent, reports that the session,
// its source or the server has reached its limit: the sender must stop. Spend(0) only checks.
func (s *Share) Spend(sent units.Bytes) error { return s.charge(Egress, int64(sent)) }

// Use counts run time as Spend counts bytes.
func (s *Share) Use(d time.Duration) error { return s.charge(Time, int64(d)) }

// Record counts a stored result of a client at from with the named key, or without one. An
// error, which wraps ErrSpent, reports that no more results may be stored. A nil Budget has no
// limits.
func (b *Budget) Record(from netip.Addr, key string) error {
	if b == nil {
		return nil
	}
	class := Keyed
	if key == "" {
		class = Anonymous
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &Share{budget: b, class: class, who: who{Source(from), class, key}}
	if s.entry = b.enter(s.who); s.entry == nil {
		b.refused[Records]++
		return &Refusal{Kind: Records, Level: OfServer, Class: class, Need: 1, Window: b.window}
	}
	defer b.leave(s.entry)
	if r := b.over(s, Records); r != nil {
		return r
	}
	now, i := b.slot(), Records-held
	b.used[class].spent[i].at(now).add(1)
	s.entry.spent[i].at(now).add(1)
	return nil
}

func (s *Share) charge(k Kind, n int64) error {
	if s == nil {
		return nil
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	e := s.entry
	if s.closed { // late use still counts against a known source
		if e = b.enter(s.who); e != nil {
			defer b.leave(e)
		}
	}
	n, now, i := max(0, n), b.slot(), k-held
	s.spent[i] = min(unlimited, s.spent[i]+min(n, unlimited))
	b.used[s.class].spent[i].at(now).add(n)
	if e == nil {
		return nil
	}
	e.spent[i].at(now).add(n)
	if r := b.over(s, k); r != nil {
		return r
	}
	return nil
}

// Ends returns when the session's lifetime ends; the zero time is never.
func (s *Share) Ends() time.Time {
	if s == nil {
		return time.Time{}
	}
	if life := s.budget.config.part(s.class).Lifetime; life > 0 {
		return s.opened.Add(life)
	}
	return time.Time{}
}

// Class returns the class of the share's client; Keyed for a nil share.
func (s *Share) Class() Class {
	if s == nil {
		return Keyed
	}
	return s.class
}

// Limits returns the most that the session could hold at a time if it were alone, and spend: 0
// is no limit, a negative value allows nothing.
func (s *Share) Limits() Limits {
	if s == nil {
		return Limits{}
	}
	b := s.budget
	var l amounts
	for k := range l {
		l[k] = min(b.session[s.class][k], b.source[s.class][k], b.most(s.class, Kind(k)))
		switch l[k] {
		case unlimited:
			l[k] = 0
		case 0:
			l[k] = -1
		}
	}
	return Limits{
		Sessions: int(l[Sessions]), Descriptors: int(l[Descriptors]), Memory: units.Bytes(l[Memory]), Disk: units.Bytes(l[Disk]),
		UDP: units.BitRate(l[UDP]), Egress: units.Bytes(l[Egress]), Time: time.Duration(l[Time]), Records: int(l[Records]),
	}
}

// Close gives back what the session still has. It is idempotent.
func (s *Share) Close() {
	if s == nil {
		return
	}
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.closed {
		return
	}
	var all amounts
	copy(all[:], s.held[:])
	b.give(s, all)
	s.closed = true
	b.leave(s.entry)
	s.entry = nil
}

// most returns the server's limit of k for class c.
func (b *Budget) most(c Class, k Kind) int64 {
	if c == Anonymous {
		return b.anonymous[k]
	}
	return b.server[k]
}

// take takes all held kinds of want, or nothing.
func (b *Budget) take(s *Share, want amounts) error {
	for k := range held {
		n := want[k]
		if n == 0 {
			continue
		}
		all := b.used[Anonymous].held[k] + b.used[Keyed].held[k]
		for _, l := range []struct {
			level       Level
			used, limit int64
		}{
			{OfSession, s.held[k], b.session[s.class][k]},
			{OfSource, s.entry.held[k], b.source[s.class][k]},
			{OfAnonymous, b.used[Anonymous].held[k], b.most(s.class, k)},
			{OfServer, all, b.server[k]},
		} {
			if l.level == OfAnonymous && s.class != Anonymous || n <= l.limit-l.used {
				continue
			}
			b.refused[k]++
			return &Refusal{Kind: k, Level: l.level, Class: s.class, Need: n, Used: l.used, Limit: l.limit}
		}
	}
	for k := range held {
		s.held[k] += want[k]
		s.entry.held[k] += want[k]
		b.used[s.class].held[k] += want[k]
	}
	if n := want[Sessions]; n > 0 && s.class == Keyed {
		b.keys[s.who.key] += n
	}
	return nil
}

func (b *Budget) give(s *Share, back amounts) {
	for k := range held {
		s.held[k] -= back[k]
		s.entry.held[k] -= back[k]
		b.used[s.class].held[k] -= back[k]
	}
	if n := back[Sessions]; n > 0 && s.class == Keyed {
		if b.keys[s.who.key] -= n; b.keys[s.who.key] <= 0 {
			delete(b.keys, s.who.key)
		}
	}
}

// over returns the limit that spending of k has reached, or nil.
func (b *Budget) over(s *Share, k Kind) *Refusal {
	now, i := b.slot(), k-held
	r := &Refusal{Kind: k, Class: s.class, Window: b.window}
	if limit := b.session[s.class][k]; s.spent[i] >= limit {
		r.Level, r.Used, r.Limit = OfSession, s.spent[i], limit
		b.refused[k]++
		return r
	}
	anonymous, keyed := b.used[Anonymous].spent[i].at(now), b.used[Keyed].spent[i].at(now)
	both := *anonymous
	for j := range both.parts {
		both.parts[j] += keyed.parts[j]
	}
	// What anonymous clients sent before they could be stopped does not count against clients
	// with keys.
	both.sum = min(anonymous.sum, b.anonymous[k]) + keyed.sum
	for _, l := range []struct {
		level Level
		*window
		limit int64
	}{
		{OfSource, s.sourceWindow(i, now), b.source[s.class][k]},
		{OfAnonymous, anonymous, b.most(s.class, k)},
		{OfServer, &both, b.server[k]},
	} {
		if l.window == nil || l.limit == unlimited || l.level == OfAnonymous && s.class != Anonymous || l.sum < l.limit {
			continue
		}
		r.Level, r.Used, r.Limit = l.level, l.sum, l.limit
		if n := l.until(l.limit); n >= 0 {
			r.Wait = b.epoch.Add(time.Duration(now+n) * b.width()).Sub(b.config.Now())
		}
		b.refused[k]++
		return r
	}
	return nil
}

// sourceWindow returns the window of an open share's source.
func (s *Share) sourceWindow(i Kind, now int64) *window {
	if s.entry == nil {
		return nil
	}
	return s.entry.spent[i].at(now)
}
