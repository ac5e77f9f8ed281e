package peer

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

// taken collects samples.
type taken struct {
	mu   sync.Mutex
	list []model.Sample
}

func (s *taken) emit(list []model.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, list...)
}

// count returns how many samples of m in direction d there are.
func (s *taken) count(d model.Direction, m model.Metric) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := lists.Count(s.list, func(one model.Sample) bool { return one.Direction == d && one.Metric == m })
	return n
}

const short = 240 * time.Millisecond

// clientModes are the modes of a TCP client.
var clientModes = []struct {
	name   string
	client Client
	d      model.Direction
}{
	{"forward", Client{}, model.To},
	{"forward 2.0.5", Client{Legacy: true}, model.To},
	{"reverse", Client{}, model.From},
	{"trade-off", Client{ConnectBack: true}, model.From},
	{"trade-off 2.0.5", Client{ConnectBack: true, Legacy: true}, model.From},
	{"full duplex", Client{}, model.Both},
	{"dual", Client{ConnectBack: true}, model.Both},
	{"dual 2.0.5", Client{ConnectBack: true, Legacy: true}, model.Both},
}

func TestClientWithForeignServer(t *testing.T) {
	realProgram(t)
	for _, m := range clientModes {
		for _, f := range []model.Flow{
			{Duration: short, Interval: short / 6, Streams: 1},
			{Duration: short, Interval: short / 6, Streams: 3, Block: 64 << 10, Window: 256 << 10, MSS: 1000},
			{Bytes: 30_000_001, Streams: 2},
		} {
			if f.Duration > 0 && !must.Slow {
				continue
			}
			if f.Streams > 1 && m.client.ConnectBack && (m.client.Legacy || m.d == model.From) {
				continue // iperf 2.1.8 hangs or crashes: see Client.Validate and Client.header
			}
			t.Run(fmt.Sprintf("%s/%d streams, %d bytes", m.name, f.Streams, f.Bytes), func(t *testing.T) {
				f.Direction = m.d
				checkWithForeignServer(t, m.client, f)
			})
		}
	}
}

func checkWithForeignServer(t testing.TB, c Client, f model.Flow) {
	addr, out := foreignServer(t)
	var s taken
	near, far, err := c.Run(t.Context(), addr, f, s.emit)
	must.Need(t, err == nil, "%v\nnear %+v\nserver:\n%s", err, near, out)
	for _, w := range near.Warnings {
		must.True(t, strings.Contains(w, "buffer is"), "warning %q", w) // requested 256 KiB, granted less
	}
	for _, d := range f.Direction.Parts() {
		checkDirection(t, d, f, near, far, out, c.mode(f).ConnectsBack() || f.Direction == model.Both)
		metric := model.Goodput
		if d == model.To {
			metric = model.Sent
		}
		must.True(t, f.Duration <= 0 || s.count(d, metric) >= 2, "%s: %d samples of %s", d, s.count(d, metric), metric)
	}
}

// checkDirection compares this end's figure with the server's lines. A star marks the return
// direction, except on the connection of a reverse test.
func checkDirection(t testing.TB, d model.Direction, f model.Flow, near, far model.EndReport, out *output, stars bool) {
	t.Helper()
	role, back := model.Sender, false
	if d == model.From {
		role, back = model.Receiver, stars
	}
	ours := find(t, near, d, role)
	must.True(t, f.Bytes <= 0 || d != model.To || ours.Bytes == f.Bytes, "%s: %d of %d bytes", d, ours.Bytes, f.Bytes)
	must.True(t, len(ours.Streams) == f.Streams, "%s: %d streams", d, len(ours.Streams))
	must.True(t, f.Duration <= 0 || ours.Window >= f.Duration*9/10, "%s: window %v", d, ours.Window)
	if d == model.To {
		got := find(t, far, d, model.Receiver)
		must.True(t, got.Bytes == ours.Bytes && got.Window > 0, "far %+v, near %+v", got, ours)
	}
	theirs := func(s string) units.Bytes {
		return total(transfers(t, s), func(x transfer) bool { return x.back == back })
	}
	out.await(t, fmt.Sprintf("agreement on the %d bytes %s", ours.Bytes, d), func(s string) bool { return agree(theirs(s), ours.Bytes) })
}

// drip writes b to c every step until that fails.
func drip(t testing.TB, c net.Conn, b []byte, step time.Duration) {
	defer c.Close()
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		if _, err := c.Write(b); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
}

// TestServerThatNeverEnds: whatever a server drips or floods, the client ends after the
// duration, the bytes, or the time these may take at the least rate, and reports it.
func TestServerThatNeverEnds(t *testing.T) {
	drops := func(c net.Conn) { drip(t, c, []byte("0"), 20*time.Millisecond) }
	flood := func(c net.Conn) { drip(t, c, digits(64<<10), time.Millisecond) }
	for name, c := range map[string]struct {
		do   func(c net.Conn)
		flow model.Flow
		want string
	}{
		"bytes that drip":  {drops, model.Flow{Direction: model.From, Bytes: 2000}, errOverrun.Error()},
		"bytes that flood": {flood, model.Flow{Direction: model.From, Bytes: 300_000, Interval: 20 * time.Millisecond}, errTooMuch.Error()},
		"time that drips":  {drops, model.Flow{Direction: model.From, Duration: short}, errOverrun.Error()},
		"both that drip":   {drops, model.Flow{Direction: model.Both, Bytes: 2000}, errOverrun.Error()},
		"first bytes that drip, on many": {func(c net.Conn) { drip(t, c, []byte("0"), 250*time.Millisecond) },
			model.Flow{Direction: model.From, Duration: short, Streams: 20}, "bytes came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := Client{slack: 200 * time.Millisecond, settling: 200 * time.Millisecond}
			near, _, err := client.Run(t.Context(), hostileServer(t, c.do), c.flow, nil)
			text := strings.Join(near.Warnings, "; ")
			if err != nil {
				text += err.Error()
			}
			must.Contain(t, text, c.want, "%v, %q", err, near.Warnings)
		})
	}
}

// TestUDPServerThatNeverEnds: datagrams that continue beyond the duration or the bytes, or
// after the final one, do not keep a client from ending.
func TestUDPServerThatNeverEnds(t *testing.T) {
	for name, c := range map[string]struct {
		client Client
		flow   model.Flow
		number func(i int64) int64
	}{
		"time":       {Client{}, model.Flow{Direction: model.From, Duration: short}, func(i int64) int64 { return i }},
		"bytes":      {Client{}, model.Flow{Direction: model.From, Bytes: 2000}, func(i int64) int64 { return i }},
		"full":       {Client{}, model.Flow{Direction: model.Both, Duration: short}, func(i int64) int64 { return i }},
		"nonsense":   {Client{}, model.Flow{Direction: model.From, Bytes: 2000}, func(int64) int64 { return 1 << 62 }},
		"after back": {Client{ConnectBack: true}, model.Flow{Direction: model.From, Duration: short}, func(i int64) int64 { return -i }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pc := must.Get((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
			t.Cleanup(func() { pc.Close() })
			go endless(t, pc, c.number)
			c.client.slack = 200 * time.Millisecond
			c.flow.Params = traffic.Write(udp.Params{Rate: gentle})
			near, _, err := c.client.Run(t.Context(), pc.LocalAddr().String(), c.flow, nil)
			must.True(t, err != nil || len(near.Warnings) != 0, "neither error nor warning: %+v", near)
		})
	}
}

// endless sends datagrams forever to the source of the first one, or to the port where that
// client listens.
func endless(t testing.TB, pc net.PacketConn, number func(int64) int64) {
	b := make([]byte, maxDatagram)
	n, to, err := pc.ReadFrom(b)
	if err != nil {
		return
	}
	off := iperf2.Layout16.HeaderOffset()
	if h, err := iperf2.ParseHeader(b[off:n], off); err == nil && h.Mode().ConnectsBack() {
		to = &net.UDPAddr{IP: to.(*net.UDPAddr).IP, Port: int(h.Port)}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := int64(1); ; i++ {
		out := digits(200)
		(&stamper{layout: iperf2.Layout16, wall: time.Now()}).stamp(out, number(i), 0)
		binary.BigEndian.PutUint32(out[off:], 0)
		if _, err := pc.WriteTo(out, to); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			return
		}
	}
}
