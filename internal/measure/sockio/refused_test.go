package sockio_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"linerate/internal/measure/sockio"
)

// TestRefused: who asks where nobody listens learns it from the error.
func TestRefused(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); !sockio.Refused(err) {
		t.Errorf("TCP: %v", err)
	}
	c, err := new(net.Dialer).DialContext(t.Context(), "udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := sockio.HearRefusals(c.(*net.UDPConn)); err != nil {
		t.Fatal(err)
	}
	// A read tells it, or the next write.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, err = c.Write([]byte("x")); err != nil {
			break
		}
		if err = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err = c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if !sockio.Refused(err) {
		t.Errorf("UDP: %v", err)
	}
	for _, other := range []error{nil, net.ErrClosed, errors.New("refused")} {
		if sockio.Refused(other) {
			t.Errorf("%v counts as refused", other)
		}
	}
}
