package limits

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestDatagramGoodput(t *testing.T) {
	for _, c := range []struct {
		wire    Wire
		payload int
		want    float64 // bytes of payload per byte on the wire
	}{
		{Wire{Rate: 1e9, MTU: 1500}, 1472, 1472.0 / 1538},
		{Wire{Rate: 1e9, MTU: 1500}, 64, 64.0 / (64 + 28 + 38)},
		{Wire{Rate: 1e9, MTU: 1500}, 16, 16.0 / 84}, // 44 bytes of packet are padded to 46
		{Wire{Rate: 1e9, MTU: 1500, IPv6: true}, 1452, 1452.0 / 1538},
		{Wire{Rate: 1e9, MTU: 9000, VLANTags: 1}, 8972, 8972.0 / 9042},
		// 1481 bytes with the UDP header: one full fragment, one of a byte.
		{Wire{Rate: 1e9, MTU: 1500}, 1473, 1473.0 / (1538 + 84)},
		// 44 fragments of 1480 and one of 395 bytes.
		{Wire{Rate: 1e9, MTU: 1500}, 65507, 65507.0 / (44*1538 + 395 + 20 + 38)},
		// An extension header in each: 1448 data bytes, then 8 and 1 left.
		{Wire{Rate: 1e9, MTU: 1500, IPv6: true}, 1453, 1453.0 / (1448 + 48 + 38 + 13 + 48 + 38)},
	} {
		got, err := c.wire.DatagramGoodput(c.payload)
		if err != nil || math.Abs(float64(got)/(1e9*c.want)-1) > 1e-12 {
			t.Errorf("%+v with %d bytes: %v, %v; want %v", c.wire, c.payload, float64(got), err, 1e9*c.want)
		}
	}
	must.Fail(t, must.Err((Wire{Rate: 1e9, MTU: 1500}).DatagramGoodput(65508)), "65508 bytes fit nowhere")
	must.Fail(t, must.Err((Wire{Rate: 1e9}).DatagramGoodput(1)), "a wire without an MTU")
}

// Full-sized datagrams fill the wire like full-sized packets, and no datagram
// does better than a wire without headers.
func TestDatagramLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Wire{Rate: 1e9, MTU: rapid.IntRange(minMTU6, 9000).Draw(t, "mtu"), IPv6: rapid.Bool().Draw(t, "6"), UDP: true, VLANTags: rapid.IntRange(0, 2).Draw(t, "tags")}
		full := must.Get(w.Payload())(t)
		whole := must.Get(w.Goodput())(t)
		got := must.Get(w.DatagramGoodput(full))(t)
		must.Need(t, got == whole, "%v; want %v", got, whole)
		n := rapid.IntRange(1, maxDatagram).Draw(t, "payload")
		if got, err := w.DatagramGoodput(n); err != nil || got <= 0 || got >= w.Rate {
			t.Fatalf("%d bytes: %v, %v", n, got, err)
		}
	})
}
