package canary

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
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

// TestSearch tests the search on paths of every size.
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
		case limit < largest && (s.reported != nil) != (told >= 0):
			t.Fatalf("told %v", s.reported)
		}
		must.Need(t, limit >= largest || limit != 1500 && limit != 1280 || s.passes == limit, "%d instead of %d", s.passes, limit)
	})
}

// TestSearchOnABadWay: occasional loss is not taken for a limit, and if nothing arrives the
// size is not blamed.
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
		must.True(t, ok && got[0].OK && p.Passes == 40000 && !p.Reported && (p.Address == "127.0.0.1" || p.Address == "::1"), "%s: %+v", target, got)
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

// message4 returns a "fragmentation needed" of RFC 1191 about an echo request.
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
	got = parseTooBig(message4(0, request), false, from, request)
	must.True(t, got != nil && got.mtu == 0 && !strings.Contains(got.Error(), "MTU"), "an old router: %+v", got)
	got = parseTooBig(message4(1500, []byte{8, 0, 1, 2, 9, 9, 9, 9}), false, from, request)
	must.True(t, got == nil, "about another packet: %+v", got)
	six := append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, make([]byte, header6)...)
	got = parseTooBig(append(six, 128, 0, 7, 7, 3, 4, 5, 6), true, from, []byte{128, 0, 0, 0, 3, 4, 5, 6})
	must.True(t, got != nil && got.mtu == 1280, "IPv6: %+v", got)
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
		must.True(t, !ok || q.Bytes <= 0 || probe.PathTo(q.Host, q.Bytes) == s || strings.Contains(s, "/0") || strings.Contains(s, "/+"), "%q is read as %+v", s, q)
	})
}

// long is enough for an answer on a busy machine; tried is enough for a refusal, and short
// for an answer that never comes.
const (
	long  = time.Minute
	tried = time.Second
	short = 50 * time.Millisecond
)

func TestProbeAddress(t *testing.T) {
	for _, target := range []string{"127.0.0.1", "localhost"} {
		got := Probe(t.Context(), target, long, 0)
		must.True(t, len(got) == 2 && got[0].OK && got[1].OK && !got[0].Full && got[1].Full && got[0].Bytes == probe.Small && got[1].Bytes >= 1500,
			"%s: %+v", target, got)
	}
	got := Probe(t.Context(), "no-such-name.invalid", short, 0)
	must.True(t, len(got) == 2 && !got[0].OK && !got[1].OK && got[0].Detail != "", "a name that does not exist: %+v", got)
}

// TestEachWay: one kind of probe is enough if the others fail.
func TestEachWay(t *testing.T) {
	lo := endpoint{Addr: netip.MustParseAddr("127.0.0.1")}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	for _, size := range []int{probe.Small, 1500, 9000} {
		must.Equal(t, must.Get(refusedPort(ctx, lo, size))(t), "UDP port refused", "UDP with %d bytes", size)
		how, err := echo(ctx, lo, size)
		if err != nil && strings.Contains(err.Error(), "not permitted") {
			t.Log("no right to send echo requests here")
		} else if err != nil || how != "echo reply" {
			t.Errorf("echo with %d bytes: %q, %v", size, how, err)
		}
	}
	must.Contain(t, must.Get(knock(ctx, lo, closedPort))(t), "refuses", "TCP")
}

func TestProbeConnection(t *testing.T) {
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	got := Probe(t.Context(), addr, long, 0)
	must.True(t, len(got) == 1 && got[0].OK, "%+v", got)
	_ = l.Close()
	got = Probe(t.Context(), addr, tried, 0)
	must.True(t, len(got) == 1 && !got[0].OK && strings.Contains(got[0].String(), "does not answer: connect") && strings.Contains(got[0].String(), "refused"), "after Close: %+v", got)
}

func TestProbePage(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	if got := Probe(t.Context(), s.URL+"/page", long, 0); len(got) != 1 || !got[0].OK || !strings.HasPrefix(got[0].Detail, "404") {
		t.Errorf("%+v", got) // a missing page is an answer too
	}
	s.Close()
	got := Probe(t.Context(), s.URL, tried, 0)
	must.True(t, len(got) == 1 && !got[0].OK, "after Close: %+v", got)
}

// TestChecksum is the example of RFC 1071 section 3, whose sum is ddf2.
func TestChecksum(t *testing.T) {
	must.Equal(t, checksum([]byte{0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7}), ^uint16(0xddf2))
}
