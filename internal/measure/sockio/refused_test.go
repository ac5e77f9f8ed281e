package sockio_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"linerate/internal/measure/sockio"
	"linerate/internal/must"
)

// TestRefused: the error of a client shows that the port is closed.
func TestRefused(t *testing.T) {
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	must.Do(t, l.Close())
	_, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	must.True(t, sockio.Refused(err), "TCP: %v", err)
	c, err := new(net.Dialer).DialContext(t.Context(), "udp", addr)
	must.Do(t, err)
	defer c.Close()
	must.Do(t, sockio.HearRefusals(c.(*net.UDPConn)))
	// A read returns the error, or the next write.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, err = c.Write([]byte("x")); err != nil {
			break
		}
		err = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		must.Do(t, err)
		if _, err = c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	must.True(t, sockio.Refused(err), "UDP: %v", err)
	for _, other := range []error{nil, net.ErrClosed, errors.New("refused")} {
		must.True(t, !sockio.Refused(other), "%v counts as refused", other)
	}
}
