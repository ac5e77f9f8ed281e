package tcpinfo

import (
	"encoding/binary"
	"testing"
	"time"

	"linerate/internal/must"
)

// TestParseFreeBSD reads a struct with the layout of FreeBSD 12.1 and what is shorter.
func TestParseFreeBSD(t *testing.T) {
	b := make([]byte, 236)
	b[bsdOptions], b[bsdScales] = optTimestamps|optSACK|optScale, 0x76
	for at, n := range map[int]uint32{
		bsdMSS: 1460, bsdRTT: 101_250, bsdRTTVar: 500, bsdCwnd: 65_160, bsdPeerWindow: 1 << 20, bsdRetransmits: 3,
	} {
		binary.NativeEndian.PutUint32(b[at:], n)
	}
	i := parseFreeBSD(b)
	if i.MSS.Or(0) != 1448 || i.RTT.Or(0) != 101_250*time.Microsecond || i.RTTVar.Or(0) != 500*time.Microsecond || i.Cwnd.Or(0) != 65_160 ||
		i.PeerWindow.Or(0) != 1<<20 || i.Retransmits.Or(0) != 3 || i.SendScale.Or(0) != 6 || i.RecvScale.Or(0) != 7 || !i.SACK.Or(false) || i.ECN.Or(true) {
		t.Errorf("%+v", i)
	}
	must.True(t, !i.PathMTU.IsKnown() && i.PathMTU.Reason() != "" && !i.Busy.IsKnown(), "what it has not is known: %+v", i)
	for _, n := range []int{0, 8, bsdLeast - 1} {
		i := parseFreeBSD(b[:n])
		must.True(t, !i.MSS.IsKnown() && !i.Timestamps.IsKnown() && !i.Cwnd.IsKnown(), "%d bytes: %+v", n, i)
	}
}
