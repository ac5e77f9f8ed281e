package tcpinfo

import (
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

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

// TestParseFreeBSD parses a struct with the layout of FreeBSD 12.1, and a shorter one.
func TestParseFreeBSD(t *testing.T) {
	b := make([]byte, 236)
	b[bsdOptions], b[bsdScales] = optTimestamps|optSACK|optScale, 0x76
	for at, n := range map[int]uint32{
		bsdMSS: 1460, bsdRTT: 101_250, bsdRTTVar: 500, bsdCwnd: 65_160, bsdPeerWindow: 1 << 20, bsdRetransmits: 3,
	} {
		binary.NativeEndian.PutUint32(b[at:], n)
	}
	i := parseFreeBSD(b)
	must.True(t, i.MSS.Or(0) == 1448 && i.RTT.Or(0) == 101_250*time.Microsecond && i.RTTVar.Or(0) == 500*time.Microsecond &&
		i.Cwnd.Or(0) == 65_160 && i.PeerWindow.Or(0) == 1<<20 && i.Retransmits.Or(0) == 3 && i.SendScale.Or(0) == 6 &&
		i.RecvScale.Or(0) == 7 && i.SACK.Or(false) && !i.ECN.Or(true), "%+v", i)
	must.True(t, !i.PathMTU.IsKnown() && i.PathMTU.Reason() != "" && !i.Busy.IsKnown(), "what it has not is known: %+v", i)
	for _, n := range []int{0, 8, bsdLeast - 1} {
		i := parseFreeBSD(b[:n])
		must.True(t, !i.MSS.IsKnown() && !i.Timestamps.IsKnown() && !i.Cwnd.IsKnown(), "%d bytes: %+v", n, i)
	}
}
