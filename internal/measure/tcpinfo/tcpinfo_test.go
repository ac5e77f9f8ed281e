package tcpinfo

import (
	"errors"
	"net"
	"runtime"
	"testing"

	"linerate/internal/must"
)

// dial returns the dialing end of a loopback connection that has carried one byte.
func dial(t *testing.T) *net.TCPConn {
	t.Helper()
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	c := must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	a := must.Get(l.Accept())(t)
	t.Cleanup(func() { c.Close(); a.Close() })
	must.Get(c.Write([]byte{1}))(t)
	must.Get(a.Read(make([]byte, 1)))(t)
	return c.(*net.TCPConn)
}

func TestReadConnection(t *testing.T) {
	info, err := Read(dial(t))
	if errors.Is(err, errors.ErrUnsupported) {
		must.Contain(t, err.Error(), runtime.GOOS, "error %q does not name the system", err)
		return
	}
	must.Do(t, err)
	mss := info.MSS.Or(0)
	must.True(t, mss >= 500, "segment size %d on loopback", mss)
	must.True(t, info.Cwnd.IsKnown() && info.PeerWindow.IsKnown(), "windows unknown: %+v", info)
}

func TestReadClosed(t *testing.T) {
	c := dial(t)
	c.Close()
	must.Is(t, must.Err(Read(c)), net.ErrClosed, "Read of a closed connection")
	must.Is(t, must.Err(Congestion(c)), net.ErrClosed, "Congestion of a closed connection")
}
