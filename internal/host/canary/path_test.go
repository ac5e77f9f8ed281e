package canary

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/probe"
	"linerate/internal/must"
)

// TestSearch holds the search against ways of every size.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.IntRange(600, 65535).Draw(t, "largest")
		limit := rapid.OneOf(rapid.SampledFrom(mtu.Common()), rapid.IntRange(probe.Small, 70000)).Draw(t, "limit")
		told := rapid.SampledFrom([]int{-1, 0, min(limit, largest)}).Draw(t, "told") // -1: silent
		tries := 0
		s := search{largest: largest, ask: func(size int, _ time.Duration) (string, error) {
			if size > probe.Small {
				tries++
			}
			switch {
			case size <= limit:
				return "echo reply", nil
			case told >= 0:
				return "", &tooBig{router: netip.MustParseAddr("10.0.0.1"), mtu: told}
			}
			return "", errSilent
		}}
		s.do()
		want := min(limit, largest)
		switch {
		case s.passes > want:
			t.Fatalf("%d pass of %d", s.passes, limit)
		case limit >= largest && (s.passes != largest || s.lost != 0 || tries > 1):
			t.Fatalf("a free way: %+v after %d tries", s.passes, tries)
		case tries > triesOfSize*(maxSizes+1):
			t.Fatalf("%d tries", tries)
		case s.passes != want && float64(want-s.passes) > 0.05*float64(largest):
			t.Fatalf("%d instead of %d", s.passes, want)
		case told > 0 && s.passes != want:
			t.Fatalf("%d although %d was told", s.passes, want)
		case limit < largest && (s.told != nil) != (told >= 0):
			t.Fatalf("told %v", s.told)
		}
		must.Need(t, limit >= largest || limit != 1500 && limit != 1280 || s.passes == limit, "%d instead of %d", s.passes, limit)
	})
}

// TestSearchOnABadWay: what is lost now and then is not taken for a limit, and
// where nothing arrives no size is blamed.
func TestSearchOnABadWay(t *testing.T) {
	n := 0
	s := search{largest: 9000, ask: func(int, time.Duration) (string, error) {
		if n++; n%3 == 0 {
			return "", errSilent
		}
		return "echo reply", nil
	}}
	s.do()
	must.True(t, s.passes == 9000, "every third packet lost: %d pass", s.passes)
	s = search{largest: 9000, ask: func(int, time.Duration) (string, error) { return "", errSilent }}
	if s.do(); s.passes != 0 || s.detail() != "no answer in time" {
		t.Errorf("nothing passes: %d, %s", s.passes, s.detail())
	}
}

func TestProbePath(t *testing.T) {
	for _, target := range []string{probe.PathTo("localhost", 40000), probe.PathFrom(model.Egress{Bind: "127.0.0.2", Device: "lo", DSCP: 46}, "127.0.0.1", 40000)} {
		got := Probe(t.Context(), target, long, 0)
		p, ok := probe.PathOf(got, target)
		must.True(t, ok && got[0].OK && p.Passes == 40000 && !p.Told && (p.Address == "127.0.0.1" || p.Address == "::1"), "%s: %+v", target, got)
	}
	if got := Probe(t.Context(), probe.SmallTo("127.0.0.1"), long, 0); len(got) != 1 || !got[0].OK || got[0].Bytes != probe.Small {
		t.Errorf("%+v", got)
	}
	got := Probe(t.Context(), probe.PathTo("no-such-name.invalid", 1500), short, 0)
	must.True(t, len(got) == 1 && !got[0].OK && got[0].Detail != "", "%+v", got)
}

func TestHost(t *testing.T) {
	for target, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "nas:22": "nas", "[2001:db8::1]:80": "2001:db8::1", "2001:db8::1": "2001:db8::1",
		"https://u:p@example.net:8443/a/b?c": "example.net", "http://[2001:db8::2]/": "2001:db8::2", "nas": "nas",
	} {
		must.Equal(t, Host(target), want, "%s", target)
	}
}

// message4 is a "fragmentation needed" of RFC 1191 about an echo request.
func message4(mtu uint16, request []byte) []byte {
	b := append([]byte{3, 4, 0, 0, 0, 0, 0, 0}, make([]byte, header4)...)
	binary.BigEndian.PutUint16(b[6:], mtu)
	b[8] = 0x45
	return append(b, request...)
}

func TestParseTooBig(t *testing.T) {
	from := netip.MustParseAddr("10.0.0.1")
	request := []byte{8, 0, 1, 2, 3, 4, 5, 6}
	got := parseTooBig(message4(1500, request), false, from, request)
	must.True(t, got != nil && got.mtu == 1500 && got.router == from && got.Error() == "too big, says router 10.0.0.1: MTU 1500", "%+v", got)
	if got := parseTooBig(message4(0, request), false, from, request); got == nil || got.mtu != 0 || strings.Contains(got.Error(), "MTU") {
		t.Errorf("an old router: %+v", got)
	}
	if got := parseTooBig(message4(1500, []byte{8, 0, 1, 2, 9, 9, 9, 9}), false, from, request); got != nil {
		t.Errorf("about another packet: %+v", got)
	}
	six := append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, make([]byte, header6)...)
	request6 := []byte{128, 0, 0, 0, 3, 4, 5, 6}
	if got := parseTooBig(append(six, 128, 0, 7, 7, 3, 4, 5, 6), true, from, request6); got == nil || got.mtu != 1280 {
		t.Errorf("IPv6: %+v", got)
	}
}

func FuzzParseTooBig(f *testing.F) {
	request := []byte{8, 0, 1, 2, 3, 4, 5, 6}
	f.Add(message4(1500, request), false)
	f.Add(append(append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, make([]byte, header6)...), request...), true)
	f.Add([]byte{3, 4}, false)
	f.Fuzz(func(t *testing.T, b []byte, six bool) {
		got := parseTooBig(b, six, netip.IPv4Unspecified(), request)
		if got != nil && got.mtu != 0 && (got.mtu < minMTU || got.mtu > 65535) {
			t.Errorf("MTU %d", got.mtu)
		}
	})
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"path://10.0.0.1/1500", "small://x", "https://[::1]:3/", "a:1", "%", "path:////"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_ = Host(s)
		q, ok := probe.ParseQuery(s)
		must.True(t, !ok || q.Bytes <= 0 || probe.PathTo(q.Host, q.Bytes) == s || strings.Contains(s, "/0") || strings.Contains(s, "/+"),
			"%q is read as %+v", s, q)
	})
}
