package watch

import (
	"encoding/binary"
	"os"
	"testing"

	"linerate/internal/must"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile("testdata/freebsd-12.1/" + name + ".bin"))(t)
}

// TestZoneStats reads what FreeBSD 12.1 said of its zones, of which nobody had been
// refused, and the same with a cluster that was.
func TestZoneStats(t *testing.T) {
	b := recorded(t, "vm.zone_stats")
	const clusterAt = "mbuf_cluster\x00"
	var calm values
	must.Do(t, decodeZoneStats(b, &calm))
	for _, z := range zones() {
		got := calm[z.failed]
		must.True(t, got.known && got.n == 0, "%s: %+v", z.name, got)
	}
	at := -1
	for i := range b {
		if i+len(clusterAt) <= len(b) && string(b[i:i+len(clusterAt)]) == clusterAt {
			at = i
		}
	}
	must.Need(t, at >= 0, "no zone of clusters")
	binary.LittleEndian.PutUint64(b[at+zoneFails:], 77)
	binary.LittleEndian.PutUint64(b[at+zoneSleeps:], 5)
	var short values
	if err := decodeZoneStats(b, &short); err != nil || short[clusterFailed].n != 77 || short[clusterWaits].n != 5 || short[mbufFailed].n != 0 {
		t.Errorf("%+v, %+v, %v", short[clusterFailed], short[clusterWaits], err)
	}
	for _, bad := range [][]byte{nil, b[:15], b[:len(b)-1], append([]byte{2}, b[1:]...)} {
		must.Is(t, decodeZoneStats(bad, new(values)), errShape, "%d bytes", len(bad))
	}
}

// TestNetisr reads what FreeBSD 12.1 said of its one stream of work: IP queued 7193
// packets, ARP 1, IPv6 8.
func TestNetisr(t *testing.T) {
	b := recorded(t, "net.isr.work")
	got := must.Get(decodeNetisr(b))(t)
	must.Need(t, len(got) == 1 && got[0].processed == 7202 && got[0].dropped == 0, "%+v", got)
	binary.LittleEndian.PutUint64(b[8*netisrDropped:], 9)
	if got, err := decodeNetisr(b); err != nil || got[0].dropped != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, b[:100], append([]byte{1}, b[1:]...)} {
		must.Is(t, must.Err(decodeNetisr(bad)), errShape, "%d bytes", len(bad))
	}
}
