package tcpinfo

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// recorded returns what Linux 6.18 reported at the sender after a second of bulk traffic over
// loopback: 280 bytes.
func recorded(t testing.TB) []byte {
	t.Helper()
	return must.Get(os.ReadFile("testdata/linux-6.18/tcp_info.bin"))(t)
}

func known[T any](v T) fact.Of[T] { return fact.Known(v, source) }

func TestParseByLength(t *testing.T) {
	// Each version adds to its predecessors.
	linux26 := Info{
		Timestamps: known(true), SACK: known(true), ECN: known(false),
		SendScale: known(10), RecvScale: known(10), MSS: known(65483), PathMTU: known(65535),
		RTT: known(46 * time.Microsecond), RTTVar: known(17 * time.Microsecond),
		Cwnd: known(units.Bytes(16 * 65483)), Retransmits: known(int64(0)),
	}
	linux42 := linux26
	linux42.SegmentsOut, linux42.SegmentsIn = known(int64(92981)), known(int64(31637))
	linux42.BytesAcked = known(units.Bytes(4254859265))
	linux46 := linux42
	linux46.NotSent = known(units.Bytes(0))
	linux46.RTTMin = known(4 * time.Microsecond)
	linux49 := linux46
	linux49.DeliveryRate = known(units.BitRate(8 * 0x17fe91c23))
	linux49.AppLimited = known(true)
	linux410 := linux49
	linux410.Busy = known(952 * time.Millisecond)
	linux410.RwndLimited = known(24 * time.Millisecond)
	linux410.SndbufLimited = known(time.Duration(0))
	linux419 := linux410
	linux419.BytesSent = known(units.Bytes(4254859264))
	linux54 := linux419
	linux54.PeerWindow = known(units.Bytes(0x3d0800))
	for _, c := range []struct {
		name   string
		length int
		want   Info
	}{
		{"nothing", 0, Info{}},
		{"state only", 5, Info{}},
		{"2.6", 104, linux26},
		{"4.2", 144, linux42},
		{"4.6", 160, linux46},
		{"4.9", 168, linux49},
		{"4.10", 192, linux410},
		{"cut inside bytes_sent", 207, linux410},
		{"4.19", 224, linux419},
		{"cut inside snd_wnd", 231, linux419},
		{"5.4", 232, linux54},
		{"6.18", 280, linux54},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parse(recorded(t)[:c.length])
			d := cmp.Diff(c.want, got, cmp.AllowUnexported(
				fact.Of[bool]{}, fact.Of[int]{}, fact.Of[int64]{}, fact.Of[time.Duration]{},
				fact.Of[units.Bytes]{}, fact.Of[units.BitRate]{}))
			must.True(t, d == "", "parse (-want +got):\n%s", d)
		})
	}
}

// TestParseBBR: the length determines the version; 16 bytes are another congestion control.
func TestParseBBR(t *testing.T) {
	later := make([]byte, 52)
	for off, v := range map[int]uint32{0: 2_000_000_000, 4: 1, 8: 40_000, 12: 256, 16: 512, 44: 70} {
		binary.NativeEndian.PutUint32(later[off:], v)
	}
	first := BBR{Rate: 8 * (1<<32 + 2_000_000_000), RTTMin: 40 * time.Millisecond, Steady: true}
	third := first
	third.InFlight = fact.Known(int64(70), "TCP_CC_INFO")
	must.Equal(t, must.Get(parseBBR(later[:20]))(t), first)
	must.Equal(t, must.Get(parseBBR(later))(t), third)
	binary.NativeEndian.PutUint32(later[44:], math.MaxUint32)
	must.Equal(t, must.Get(parseBBR(later))(t), first, "no bound")
	binary.NativeEndian.PutUint32(later[12:], 320)
	must.True(t, !must.Get(parseBBR(later[:20]))(t).Steady, "it looks for more")
	for _, n := range []int{0, 16, 28, 51, 53} {
		must.Is(t, must.Err(parseBBR(append(later, 0)[:n])), errors.ErrUnsupported, "%d bytes", n)
	}
}

func TestParseUnknowns(t *testing.T) {
	b := recorded(t)
	b[offOptions] = optSACK // no window scaling: the scales are meaningless
	clear(b[offRTT : offRTT+4])
	copy(b[offRTTMin:], []byte{255, 255, 255, 255})
	copy(b[offBusy:], []byte{255, 255, 255, 255, 255, 255, 255, 255})
	i := parse(b)
	must.True(t, !i.SendScale.IsKnown() && !i.RecvScale.IsKnown() && !i.RTT.IsKnown() && !i.RTTVar.IsKnown() && !i.RTTMin.IsKnown() &&
		!i.Busy.IsKnown(), "known where the kernel knows nothing: %+v", i)
	must.True(t, !i.Timestamps.Or(true) && i.SACK.Or(false), "options: timestamps %v, sack %v", i.Timestamps, i.SACK)
}

func FuzzParse(f *testing.F) {
	for _, n := range []int{0, 8, 104, 192, 232, 280} {
		f.Add(recorded(f)[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i := parse(b)
		for name, v := range map[string]int64{
			"cwnd": int64(i.Cwnd.Or(0)), "peer window": int64(i.PeerWindow.Or(0)), "rtt": int64(i.RTT.Or(0)),
			"rtt min": int64(i.RTTMin.Or(0)), "busy": int64(i.Busy.Or(0)), "retransmits": i.Retransmits.Or(0),
		} {
			must.True(t, v >= 0, "%s is %d", name, v)
		}
		must.True(t, i.SendScale.Or(0) <= 15 && i.RecvScale.Or(0) <= 15, "scales %v, %v", i.SendScale, i.RecvScale)
	})
}

func TestReadAllocatesNothing(t *testing.T) {
	raw := must.Get(dial(t).SyscallConn())(t)
	err := raw.Control(func(fd uintptr) {
		allocations := testing.AllocsPerRun(100, func() { must.OK(t, must.Err(ReadFD(fd))) })
		must.Equal(t, allocations, 0, "allocations per reading")
	})
	must.Do(t, err)
}

func TestCongestionName(t *testing.T) {
	b := must.Get(os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control"))(t)
	got, err := Congestion(dial(t))
	want := strings.TrimSpace(string(b))
	must.True(t, err == nil && got == want, "Congestion = %q, %v; want %q", got, err, want)
}
