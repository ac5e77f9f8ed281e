package purge

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/knobtest"
)

// saved makes a TCP connection over the loopback interface of the namespace and
// ends it, until the kernel remembers something of it.
func saved(t *testing.T) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	late := time.After(time.Minute)
	for entries(t) == 0 {
		exchange(t, l.Addr().String())
		select {
		case <-late:
			t.Fatal("the kernel remembers nothing of a connection")
		default:
		}
	}
}

// exchange sends something, waits for its echo and ends the connection.
func exchange(t *testing.T, addr string) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Fatal(err)
	}
}

func entries(t *testing.T) int {
	t.Helper()
	f, err := netlink.GenlFamilyGet(family)
	if err != nil {
		t.Fatal(err)
	}
	n, err := remembered(f.ID)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTCPMetricsInNamespace sees an empty cache, fills it and purges it. Without
// root it sees that this is refused.
func TestTCPMetricsInNamespace(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	if err := TCPMetrics(t.Context()); err != nil {
		t.Errorf("of an empty cache: %v", err)
	}
	saved(t)
	err := TCPMetrics(t.Context())
	n := entries(t)
	switch {
	case errors.Is(err, fs.ErrPermission): // root of a user namespace of its own
		if n == 0 {
			t.Errorf("%v, yet nothing is remembered", err)
		}
	case err != nil || n != 0:
		t.Errorf("error %v, %d destinations are remembered after the purge", err, n)
	}
}
