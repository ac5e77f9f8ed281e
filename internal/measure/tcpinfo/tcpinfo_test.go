package tcpinfo

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
)

// dial returns the dialing end of a loopback connection that has carried one byte.
func dial(t *testing.T) *net.TCPConn {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); a.Close() })
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func TestReadConnection(t *testing.T) {
	info, err := Read(dial(t))
	if errors.Is(err, errors.ErrUnsupported) {
		if !strings.Contains(err.Error(), runtime.GOOS) {
			t.Errorf("error %q does not name the system", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if mss := info.MSS.Or(0); mss < 500 {
		t.Errorf("segment size %d on loopback", mss)
	}
	if !info.Cwnd.IsKnown() || !info.PeerWindow.IsKnown() {
		t.Errorf("windows unknown: %+v", info)
	}
}

func TestReadClosed(t *testing.T) {
	c := dial(t)
	c.Close()
	if _, err := Read(c); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read of a closed connection: %v, want net.ErrClosed", err)
	}
	if _, err := Congestion(c); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Congestion of a closed connection: %v, want net.ErrClosed", err)
	}
}
