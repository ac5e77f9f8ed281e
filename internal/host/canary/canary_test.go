package canary

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/probe"
	"linerate/internal/must"
)

// long is enough for an answer on a busy machine, tried for one refusal, short for an
// answer that never comes.
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

// TestEachWay: one way alone is enough where the others are closed.
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
	if got := Probe(t.Context(), addr, tried, 0); len(got) != 1 || got[0].OK || !strings.Contains(got[0].String(), "does not answer: connect") || !strings.Contains(got[0].String(), "refused") {
		t.Errorf("after Close: %+v", got)
	}
}

func TestProbePage(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	if got := Probe(t.Context(), s.URL+"/page", long, 0); len(got) != 1 || !got[0].OK || !strings.HasPrefix(got[0].Detail, "404") {
		t.Errorf("%+v", got) // that there is no such page is an answer
	}
	s.Close()
	got := Probe(t.Context(), s.URL, tried, 0)
	must.True(t, len(got) == 1 && !got[0].OK, "after Close: %+v", got)
}

// TestChecksum is the example of RFC 1071 section 3, whose sum is ddf2.
func TestChecksum(t *testing.T) {
	must.Equal(t, checksum([]byte{0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7}), ^uint16(0xddf2))
}
