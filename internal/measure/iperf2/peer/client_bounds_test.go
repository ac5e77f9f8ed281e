package peer

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/iperf2"
	"linerate/internal/must"
)

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

// TestServerThatNeverEnds: whatever a server drips or floods, the client ends
// after the time, the bytes, or what these may take at the least rate, and says so.
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

// TestUDPServerThatNeverEnds: datagrams that go on beyond the time or the bytes, or
// after the final one, hold no client.
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

// endless sends datagrams for ever to whoever sends some, or to where it listens.
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
