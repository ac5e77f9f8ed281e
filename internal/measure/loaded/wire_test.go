package loaded

import (
	"bytes"
	"testing"
	"time"

	"linerate/internal/must"
)

func FuzzHello(f *testing.F) {
	f.Add(hello{}.encode())
	f.Add(newHello(true).encode())
	f.Add([]byte("lnld\x02\x0012345678"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		must.True(t, err != nil || bytes.Equal(h.encode(), b), "%x is read as %+v, which is %x", b, h, h.encode())
	})
}

func FuzzDatagram(f *testing.F) {
	cookie := [cookieSize]byte{1, 2, 3, 4, 5, 6, 7, 8}
	b := make([]byte, probeSize)
	datagram(b, cookie, 77)
	f.Add(b)
	f.Add(b[:probeSize-1])
	f.Add(make([]byte, probeSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, _, ok := parseDatagram(b, cookie)
		if !ok {
			return
		}
		again := bytes.Clone(b)
		datagram(again, cookie, seq)
		must.True(t, bytes.Equal(again, b), "%x is probe %d, which is %x", b, seq, again)
	})
}

// TestTracker answers probes late, twice, never, and some that were not sent.
func TestTracker(t *testing.T) {
	const ms = time.Millisecond
	var k tracker
	first := k.send(1 * ms)
	second := k.send(2 * ms)
	k.enter(loading)
	third := k.send(3 * ms)
	k.answer(second, 12*ms)
	k.answer(second, 13*ms)
	k.answer(99, 13*ms)
	k.answer(first, 31*ms) // sent before the load, answered under it
	k.answer(third, 8*ms)
	for p, want := range map[phase]struct {
		sent int64
		max  time.Duration
	}{idling: {2, 30 * ms}, aside: {0, 0}, loading: {1, 5 * ms}} {
		s := k.of(p)
		must.True(t, s.sent == want.sent && int64(s.times.Count()) == want.sent && s.times.Max().Or(0) == want.max, "phase %d: %d sent, %d answered, slowest %v; want %+v", p, s.sent, s.times.Count(), s.times.Max(), want)
	}
	must.True(t, k.slowest() == 30*ms && !k.waiting(0), "slowest %v, waiting %t", k.slowest(), k.waiting(0))
	got := k.turn().Count()
	must.True(t, got == 3 && k.turn().Count() == 0, "the interval had %d answers, want 3 once", got)
	fourth := k.send(40 * ms)
	must.True(t, k.waiting(40*ms) && !k.waiting(41*ms), "waits for a probe of another time")
	for range remembered { // the last one forgets all others
		k.send(50 * ms)
	}
	k.answer(fourth, 60*ms)
	k.answer(k.next-1, 60*ms)
	s := k.of(loading)
	must.True(t, s.times.Count() == 2, "%d answers, want 2: the fourth probe is forgotten", s.times.Count())
}
