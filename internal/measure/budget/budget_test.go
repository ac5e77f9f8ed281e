package budget

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/units"
	"linerate/internal/must"
)

// clock is a clock that tests move.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// keyOf returns the key that clients of class c have in tests.
func keyOf(c Class) string {
	if c == Keyed {
		return "key"
	}
	return ""
}

func open(t testing.TB, b *Budget, n int, c Class) *Share {
	t.Helper()
	return must.Get(b.Open(address(n), keyOf(c)))(t)
}

func TestSource(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
	} {
		got := Source(netip.MustParseAddr(in))
		must.True(t, got.String() == want, "%s: %v, want %s", in, got, want)
	}
	must.Equal(t, Source(netip.Addr{}), (netip.Prefix{}), "no address")
}

// TestRefusals: a refusal has the numbers and says what to do.
func TestRefusals(t *testing.T) {
	c := newClock()
	b := New(Config{
		Server:       Limits{Sessions: 3, Memory: 3 << 30, UDP: 1e9, Egress: 10 << 30},
		AllAnonymous: Limits{Memory: 2 << 30},
		Anonymous: Part{
			Session: Limits{Memory: 512 << 20},
			Source:  Limits{Sessions: 2, Memory: 768 << 20, Egress: 1 << 30},
		},
		Keyed: Part{Source: Limits{Disk: -1}},
		Now:   c.now,
	})
	a := open(t, b, 1, Anonymous)
	also := open(t, b, 1, Anonymous)
	check := func(err error, later bool, want string) {
		t.Helper()
		var r *Refusal
		must.True(t, errors.Is(err, ErrSpent) && errors.As(err, &r) && r.Later() == later && strings.Contains(err.Error(), want),
			"got %v (%+v), want %s", err, r, want)
	}
	_, err := a.Take(Amounts{Memory: 6 << 30})
	check(err, false, "this needs 6 GiB of memory, this server gives 512 MiB to a session: ask for less")
	give := must.Get(a.Take(Amounts{Memory: 512 << 20}))(t)
	_, err = also.Take(Amounts{Memory: 512 << 20})
	check(err, true, "this needs 512 MiB of memory, and of the 768 MiB that this server gives one address only 256 MiB is left: end another session of yours, or ask for less")
	_, err = b.Open(address(1), "")
	check(err, true, "this server already has 2 sessions from your address, its limit: close one of them")
	key := open(t, b, 1, Keyed)
	_, err = b.Open(address(2), "key")
	check(err, true, "this server already has 3 sessions, its limit: try again later")
	_, err = key.Take(Amounts{Disk: 1})
	check(err, false, "this needs 1 B of disk, this server gives 0 B to one address")
	_, err = key.Take(Amounts{UDP: 2e9})
	check(err, false, "this needs 2 Gbit/s of UDP, this server gives 1 Gbit/s to all together")
	give()
	give()
	must.OK(t, must.Err(also.Take(Amounts{Memory: 512 << 20})))
	must.OK(t, a.Spend(1<<30-1))
	err = a.Spend(1)
	check(err, true, "this server sends 1 GiB for one address within 24 h, and has: try again in 26 h")
	a.Close()
	also.Close()
	_, err = b.Open(address(1), "")
	check(err, true, "within 24 h")
	c.Time = c.Add(23 * time.Hour)
	_, err = b.Open(address(1), "")
	check(err, true, "try again in 3 h")
	c.Time = c.Add(3 * time.Hour)
	open(t, b, 1, Anonymous)
	must.Fail(t, must.Err(key.Take(Amounts{Memory: -1})), "took a negative amount")
}

// TestKeyedBehindAnonymous has one address spend its whole anonymous limit: a client with a key
// at that address is still served.
func TestKeyedBehindAnonymous(t *testing.T) {
	b := New(Config{
		Server: Limits{Sessions: 8, Egress: 100}, AllAnonymous: Limits{Sessions: 6, Egress: 50},
		Anonymous: Part{Source: Limits{Egress: 10}},
	})
	var all []*Share
	for {
		s, err := b.Open(address(1), "")
		if err != nil {
			break
		}
		all = append(all, s)
	}
	must.Need(t, len(all) == 6, "%d sessions of anonymous clients, want 6", len(all))
	must.Fail(t, all[0].Spend(1000), "an anonymous client spent the budget of others")
	must.Equal(t, open(t, b, 1, Keyed).Class(), Keyed, "class")
}

// TestForgottenSources has more sources than are remembered. A source that spent its limit gets
// no more, and no other source is locked out.
func TestForgottenSources(t *testing.T) {
	c := newClock()
	b := New(Config{Anonymous: Part{Source: Limits{Egress: 1000}}, Now: c.now})
	const spenders, visitors = 8, 3 * maxSources
	for n := range spenders {
		s := open(t, b, n, Anonymous)
		must.Need(t, s.Spend(1000) != nil, "more than the limit")
		s.Close()
	}
	for n := spenders; n < spenders+visitors; n++ {
		s, err := b.Open(address(n), "")
		must.Dof(t, err, "source %d is locked out", n)
		_ = s.Spend(1)
		s.Close()
	}
	u := b.Usage()
	must.True(t, u.Active == 0 && u.Remembered == maxSources, "remembered: %+v", u)
	for n := range spenders {
		if s, err := b.Open(address(n), ""); err == nil {
			t.Errorf("source %d was forgotten", n)
			s.Close()
		}
	}
	c.Time = c.Add(26 * time.Hour)
	for n := range spenders {
		open(t, b, n, Anonymous).Close()
	}
}

// TestManyAtOnce uses one budget from many goroutines.
func TestManyAtOnce(t *testing.T) {
	b := New(Config{Server: Limits{Sessions: 4, Memory: 1000}})
	var all sync.WaitGroup
	for n := range 16 {
		all.Go(func() {
			for range 200 {
				s, err := b.Open(address(n), keyOf(Class(n%2)))
				if err != nil {
					continue
				}
				give, _ := s.Take(Amounts{Memory: 400})
				_ = s.Spend(1)
				u := b.Usage()
				must.True(t, u.Kinds[Memory].Used() <= 1000 && u.Kinds[Sessions].Used() <= 4, "over the limit")
				go give()
				s.Close()
			}
		})
	}
	all.Wait()
	for _, k := range b.Usage().Kinds[:held] {
		must.True(t, k.Used() == 0, "%v: %d were not given back", k.Kind, k.Used())
	}
}

// TestNothing: a nil budget has no limits.
func TestNothing(t *testing.T) {
	var b *Budget
	s := must.Get(b.Open(netip.Addr{}, ""))(t)
	give, err := s.Take(Amounts{Memory: 1 << 60})
	give()
	s.Close()
	err = errors.Join(err, s.Spend(1<<60), s.Use(time.Hour))
	must.True(t, err == nil && s.Ends().IsZero() && s.Limits() == (Limits{}), "%v", err)
	u := b.Usage()
	must.True(t, len(u.Kinds) == 0, "%+v", u)
}

func TestLifetimeAndLimits(t *testing.T) {
	c := newClock()
	b := New(Config{
		Server: Limits{Memory: 100, UDP: units.BitRate(1e9)}, AllAnonymous: Limits{Memory: 40},
		Anonymous: Part{Session: Limits{Memory: 50}, Lifetime: time.Minute, Source: Limits{Disk: -1}}, Now: c.now,
	})
	s := open(t, b, 1, Anonymous)
	must.True(t, s.Ends().Equal(c.Add(time.Minute)), "ends %v", s.Ends())
	l := s.Limits()
	must.True(t, l.Memory == 40 && l.UDP == 1e9 && l.Disk == -1 && l.Egress == 0, "%+v", l)
}

// TestDivide: no part of a server takes the descriptors of another, however few there are.
func TestDivide(t *testing.T) {
	for _, n := range []int{48, 96, 256, 1024, 4096, 8192, 65536} {
		for listeners := range 4 {
			d := Divide(n, listeners)
			own := n - d.Sessions - d.Unknown - d.Friends - listeners*d.Listener
			must.True(t, own >= min(wholeOwn, n/3)-4, "%d descriptors, %d listeners: %+v leaves %d to the process itself", n, listeners, d, own)
			must.True(t, d.Sessions >= n/2 && d.Unknown >= 1 && d.Friends >= 1 && d.Listener >= 1, "%d descriptors, %d listeners: %+v", n, listeners, d)
		}
	}
	d := Divide(65536, 3)
	must.True(t, d == (Division{Sessions: 65536 - 1024 - 512 - 3*896 - 64, Unknown: 1024, Friends: 512, Listener: 896}), "a server with descriptors enough: %+v", d)
}
