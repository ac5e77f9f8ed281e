package purge

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// saved makes and ends TCP connections over the namespace's loopback interface until the
// kernel has an entry in its metrics cache.
func saved(t *testing.T) {
	t.Helper()
	must.Do(t, os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("0"), 0))
	must.Do(t, netlink.LinkSetUp(must.Get(netlink.LinkByName("lo"))(t)))
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	must.Until(t, "the kernel to remember a connection", func() bool {
		exchange(t, l.Addr().String())
		return entries(t) != 0
	})
}

// exchange sends data, waits for the echo and closes the connection.
func exchange(t *testing.T, addr string) {
	t.Helper()
	c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", addr))(t)
	defer c.Close()
	must.Get(c.Write(make([]byte, 1000)))(t)
	must.Do(t, c.(*net.TCPConn).CloseWrite())
	must.Get(io.Copy(io.Discard, c))(t)
}

func entries(t *testing.T) int {
	t.Helper()
	return must.Get(remembered(must.Get(netlink.GenlFamilyGet(family))(t).ID))(t)
}

// TestTCPMetricsInNamespace purges an empty cache, then a filled one. Without root the purge
// must fail.
func TestTCPMetricsInNamespace(t *testing.T) { knobtest.InNamespace(t, testTCPMetricsInNamespace) }

func testTCPMetricsInNamespace(t *testing.T) {
	must.OK(t, TCPMetrics(t.Context()), "of an empty cache")
	saved(t)
	err := TCPMetrics(t.Context())
	n := entries(t)
	switch {
	case errors.Is(err, fs.ErrPermission): // root in its own user namespace
		must.True(t, n != 0, "%v, yet nothing is remembered", err)
	case err != nil || n != 0:
		t.Errorf("error %v, %d destinations are remembered after the purge", err, n)
	}
}
