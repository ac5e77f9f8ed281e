package route

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/mdlayher/netlink"
	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestTargets(t *testing.T) {
	for _, ok := range []string{"default dev eth0", "10.0.0.0/24 dev eth0", "::/0 dev eth0", "2001:db8::/32 dev eth0.1"} {
		must.OK(t, must.Err(Open(ok, "mtu")), "Open(%q)", ok)
	}
	for _, bad := range []string{"", "default", "default eth0", "10.0.0.1/24 dev eth0", "10.0.0.1 dev eth0", "default dev a-name-that-is-too-long", "x dev eth0"} {
		must.Fail(t, must.Err(Open(bad, "mtu")), "Open(%q) succeeded", bad)
	}
	must.Is(t, must.Err(Open("default dev eth0", "colour")), errors.ErrUnsupported, "an unknown metric")
}

// header encodes one attribute.
func header(id uint16, value []byte) []byte {
	b, _ := netlink.MarshalAttributes([]netlink.Attribute{{Type: id, Data: value}}) // the length fits
	return b
}

// message is a route message with random attributes, as the kernel could send it.
func message(t *rapid.T) []byte {
	msg := rapid.SliceOfN(rapid.Byte(), rtmsgSize, rtmsgSize).Draw(t, "rtmsg")
	value := rapid.SliceOfN(rapid.Byte(), 0, 9)
	for range rapid.IntRange(0, 4).Draw(t, "attributes") {
		id := rapid.SampledFrom([]uint16{1, 4, 5, 6, 15, 16}).Draw(t, "id")
		msg = append(msg, header(id, value.Draw(t, "value"))...)
	}
	var metrics []byte
	for id := range uint16(12) {
		if rapid.Bool().Draw(t, "has") {
			metrics = append(metrics, header(id+1, binary.NativeEndian.AppendUint32(nil, rapid.Uint32Min(1).Draw(t, "metric")))...)
		}
	}
	if len(metrics) > 0 {
		msg = append(msg, header(attrMetrics, metrics)...)
	}
	return msg
}

// TestOneMetricChanges: the metric that is set reads back; every other metric and the rest of
// the message stay the same.
func TestOneMetricChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		msg := message(t)
		id, n := rapid.Uint16Range(1, 12).Draw(t, "changed"), rapid.Uint32().Draw(t, "to")
		out := must.Get(withMetric(msg, id, n))(t)
		for other := range uint16(12) {
			want := must.Get(readMetric(msg, other+1))(t)
			if other+1 == id {
				want = n
			}
			got, err := readMetric(out, other+1)
			must.Need(t, got == want && err == nil, "metric %d = %d, %v, want %d", other+1, got, err, want)
		}
		for _, id := range []uint16{1, 4, 5, 6, 15, 16} {
			before, _ := attribute(msg, id)
			after, err := attribute(out, id)
			must.Need(t, string(before) == string(after) && err == nil, "attribute %d was %x, is %x, %v", id, before, after, err)
		}
	})
}

func FuzzWithMetric(f *testing.F) {
	f.Add(append(make([]byte, rtmsgSize), header(attrMetrics, header(2, []byte{1, 2, 3, 4}))...), uint16(2))
	f.Fuzz(func(t *testing.T, msg []byte, id uint16) {
		out, err := withMetric(msg, id&typeMask, 7)
		if err != nil {
			return
		}
		must.Equal(t, must.Get(readMetric(out, id&typeMask))(t), 7, "metric")
	})
}
