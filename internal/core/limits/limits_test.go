package limits

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// The table of goodput by MTU, options and link.
func TestGoodputTable(t *testing.T) {
	type row struct {
		mtu           int
		ts, vlan, v6  bool
		payload, wire int
		percent       float64
		mbit          [6]float64 // at 10M, 100M, 1G, 10G, 25G, 100G
	}
	rates := [6]units.BitRate{10e6, 100e6, 1e9, 10e9, 25e9, 100e9}
	for _, r := range []row{
		{1500, true, false, false, 1448, 1538, 94.148, [6]float64{9.41, 94.15, 941.48, 9414.82, 23537.06, 94148.24}},
		{1500, false, false, false, 1460, 1538, 94.928, [6]float64{9.49, 94.93, 949.28, 9492.85, 23732.12, 94928.48}},
		{1500, true, true, false, 1448, 1542, 93.904, [6]float64{9.39, 93.90, 939.04, 9390.40, 23476.01, 93904.02}},
		{1500, false, true, false, 1460, 1542, 94.682, [6]float64{9.47, 94.68, 946.82, 9468.22, 23670.56, 94682.23}},
		{4074, true, false, false, 4022, 4112, 97.811, [6]float64{9.78, 97.81, 978.11, 9781.13, 24452.82, 97811.28}},
		{4074, false, false, false, 4034, 4112, 98.103, [6]float64{9.81, 98.10, 981.03, 9810.31, 24525.78, 98103.11}},
		{4088, true, false, false, 4036, 4126, 97.819, [6]float64{9.78, 97.82, 978.19, 9781.87, 24454.68, 97818.71}},
		{4088, false, false, false, 4048, 4126, 98.110, [6]float64{9.81, 98.11, 981.10, 9810.95, 24527.39, 98109.55}},
		{4088, true, true, false, 4036, 4130, 97.724, [6]float64{9.77, 97.72, 977.24, 9772.40, 24430.99, 97723.97}},
		{4088, false, true, false, 4048, 4130, 98.015, [6]float64{9.80, 98.01, 980.15, 9801.45, 24503.63, 98014.53}},
		{9000, true, false, false, 8948, 9038, 99.004, [6]float64{9.90, 99.00, 990.04, 9900.42, 24751.05, 99004.20}},
		{9000, false, false, false, 8960, 9038, 99.137, [6]float64{9.91, 99.14, 991.37, 9913.70, 24784.24, 99136.98}},
		{9000, true, true, false, 8948, 9042, 98.960, [6]float64{9.90, 98.96, 989.60, 9896.04, 24740.10, 98960.41}},
		{9000, false, true, false, 8960, 9042, 99.093, [6]float64{9.91, 99.09, 990.93, 9909.31, 24773.28, 99093.12}},
		{9014, true, false, false, 8962, 9052, 99.006, [6]float64{9.90, 99.01, 990.06, 9900.57, 24751.44, 99005.74}},
		{9014, false, false, false, 8974, 9052, 99.138, [6]float64{9.91, 99.14, 991.38, 9913.83, 24784.58, 99138.31}},
		{9014, true, true, false, 8962, 9056, 98.962, [6]float64{9.90, 98.96, 989.62, 9896.20, 24740.50, 98962.01}},
		{9014, false, true, false, 8974, 9056, 99.095, [6]float64{9.91, 99.09, 990.95, 9909.45, 24773.63, 99094.52}},
		{576, true, false, false, 524, 614, 85.342, [6]float64{8.53, 85.34, 853.42, 8534.20, 21335.50, 85342.02}},
		{1280, true, false, false, 1228, 1318, 93.171, [6]float64{9.32, 93.17, 931.71, 9317.15, 23292.87, 93171.47}},
		{1500, true, false, true, 1428, 1538, 92.848, [6]float64{9.28, 92.85, 928.48, 9284.79, 23211.97, 92847.85}},
		{9000, true, false, true, 8928, 9038, 98.783, [6]float64{9.88, 98.78, 987.83, 9878.29, 24695.73, 98782.91}},
	} {
		w := Wire{MTU: r.mtu, Timestamps: r.ts, IPv6: r.v6}
		if r.vlan {
			w.VLANTags = 1
		}
		for i, rate := range rates {
			w.Rate = rate
			payload, err := w.Payload()
			must.Dof(t, err, "%+v", w)
			must.True(t, payload == r.payload && w.packetBytes() == r.wire, "%+v: %d/%d bytes, want %d/%d", w, payload, w.packetBytes(), r.payload, r.wire)
			share, _ := w.PayloadShare()
			got := 100 * share
			must.True(t, !(math.Abs(got-r.percent) > 0.00051), "%+v: share %.4f %%, want %.3f %%", w, got, r.percent)
			goodput, _ := w.Goodput()
			got = float64(goodput) / 1e6
			must.True(t, !(math.Abs(got-r.mbit[i]) > 0.01), "%+v: goodput %.3f, want %.2f Mbit/s", w, got, r.mbit[i])
		}
	}
}

func TestUDPGoodput(t *testing.T) {
	for _, c := range []struct {
		wire Wire
		want float64 // of the rate
	}{
		{Wire{MTU: 1500, UDP: true}, 1472.0 / 1538},
		{Wire{MTU: 1500, UDP: true, Timestamps: true}, 1472.0 / 1538},
		{Wire{MTU: 1500, UDP: true, VLANTags: 2}, 1472.0 / 1546},
		{Wire{MTU: 1500, UDP: true, IPv6: true}, 1452.0 / 1538},
	} {
		c.wire.Rate = 1e9
		got, err := c.wire.Goodput()
		must.True(t, err == nil && math.Abs(float64(got)-c.want*1e9) <= 1, "%+v: %v, %v, want %.0f", c.wire, float64(got), err, c.want*1e9)
	}
}

func TestPacketsPerSecond(t *testing.T) {
	for mtu, want := range map[int]float64{1500: 81274, 9000: 13830} {
		got := must.Get(Wire{Rate: 1e9, MTU: mtu}.PacketsPerSecond())(t)
		must.Equal(t, math.Round(got), want, "MTU %d at 1 Gbit/s: %.1f packets/s", mtu, got)
	}
}

func TestAcknowledgments(t *testing.T) {
	w := Wire{Rate: 1e9, MTU: 1500, Timestamps: true}
	half, err := w.HalfDuplex()
	must.True(t, err == nil && math.Abs(float64(half)/1e9-0.915) <= 0.0005, "HalfDuplex = %v, %v, want 91.5 %% of the rate", half, err)
	for name, c := range map[string]struct {
		wire Wire
		want int
	}{
		"timestamps":        {Wire{MTU: 1500, Timestamps: true}, 90},
		"padded to minimum": {Wire{MTU: 1500}, 84},
		"tag in padding":    {Wire{MTU: 1500, VLANTags: 1}, 84},
		"tag":               {Wire{MTU: 1500, VLANTags: 1, Timestamps: true}, 94},
		"ipv6":              {Wire{MTU: 1500, IPv6: true, Timestamps: true}, 110},
	} {
		must.Equal(t, c.wire.ackBytes(), c.want, "%s: ackBytes", name)
	}
	udp := Wire{Rate: 1e9, MTU: 1500, UDP: true}
	full, _ := udp.Goodput()
	half, err = udp.HalfDuplex()
	must.True(t, err == nil && half == full, "UDP: HalfDuplex %v, %v; want %v", half, err, full)
}

func TestWireRefusesImpossibleValues(t *testing.T) {
	for name, c := range map[string]struct {
		wire Wire
		want []string
	}{
		"no rate":         {Wire{MTU: 1500}, []string{"link rate"}},
		"not a rate":      {Wire{Rate: units.BitRate(math.NaN()), MTU: 1500}, []string{"link rate"}},
		"endless":         {Wire{Rate: units.BitRate(math.Inf(1)), MTU: 1500}, []string{"link rate"}},
		"small for IPv4":  {Wire{Rate: 1, MTU: 67}, []string{"mtu 67"}},
		"small for IPv6":  {Wire{Rate: 1, MTU: 1279, IPv6: true}, []string{"mtu 1279"}},
		"large":           {Wire{Rate: 1, MTU: 65536}, []string{"mtu 65536"}},
		"tags":            {Wire{Rate: 1, MTU: 1500, VLANTags: 3}, []string{"3 vlan tags"}},
		"several at once": {Wire{Rate: -1, MTU: 0, VLANTags: -1}, []string{"link rate", "mtu 0", "-1 vlan tags"}},
	} {
		_, payload := c.wire.Payload()
		_, share := c.wire.PayloadShare()
		_, goodput := c.wire.Goodput()
		_, packets := c.wire.PacketsPerSecond()
		_, half := c.wire.HalfDuplex()
		for _, err := range []error{payload, share, goodput, packets, half} {
			must.Need(t, err != nil, "%s: no error", name)
			for _, want := range c.want {
				must.Contain(t, err.Error(), want, "%s: error %q", name, err)
			}
		}
	}
}

// The table of rates by window and round trip, in Mbit/s.
func TestWindowTable(t *testing.T) {
	rtts := [4]time.Duration{time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond}
	for window, want := range map[units.Bytes][4]float64{
		MaxUnscaledWindow: {524, 52.4, 10.5, 5.2},
		131072:            {1049, 104.9, 21.0, 10.5},
		262144:            {2097, 209.7, 41.9, 21.0},
		2 << 20:           {16777, 1678, 335.5, 167.8},
		4 << 20:           {33554, 3355, 671, 335.5},
		3 << 20:           {25166, 2517, 503, 252},
		16776960:          {134216, 13422, 2684, 1342},
		32 << 20:          {268435, 26844, 5369, 2684},
	} {
		for i, rtt := range rtts {
			got := float64(WindowBound(window, rtt)) / 1e6
			tolerance := 0.051 // the table has one decimal
			if want[i] == math.Trunc(want[i]) {
				tolerance = 0.51
			}
			must.True(t, math.Abs(got-want[i]) <= tolerance, "WindowBound(%v, %v) = %.2f, want %g Mbit/s", window, rtt, got, want[i])
		}
	}
	// Microsoft's example in its documentation of TCP tuning for adapters.
	got := float64(WindowBound(64000, 10*time.Millisecond)) / 1e6
	must.True(t, !(math.Abs(got-51) > 0.5), "64 kB at 10 ms = %.1f, want 51 Mbit/s", got)
}

func TestWindowEdges(t *testing.T) {
	inf := units.BitRate(math.Inf(1))
	got := WindowBound(1, 0)
	must.True(t, got == inf, "no delay: %v, want +Inf", float64(got))
	got = WindowBound(0, 0)
	must.True(t, got == 0, "no window: %v, want 0", float64(got))
	must.Equal(t, MaxWindow, 1_073_725_440, "MaxWindow")
	for _, c := range []struct {
		rate units.BitRate
		rtt  time.Duration
		want units.Bytes
	}{
		{1e9, 10 * time.Millisecond, 1_250_000},
		{10e9, 100 * time.Millisecond, 125_000_000},
		{1, time.Second, 1},
		{0, time.Second, 0},
		{1e9, 0, 0},
		{units.BitRate(math.NaN()), time.Second, 0},
		{inf, time.Second, math.MaxInt64},
	} {
		must.Equal(t, WindowFor(c.rate, c.rtt), c.want, "WindowFor(%v, %v)", c.rate, c.rtt)
	}
}

func TestLossExamples(t *testing.T) {
	for _, c := range []struct {
		mss                int
		rtt                time.Duration
		p                  float64
		reno, cubic, bound float64 // Mbit/s
	}{
		{1448, 10 * time.Millisecond, 1e-4, 142, 38.6, 142},
		{1448, 100 * time.Millisecond, 1e-5, 44.9, 122, 122},
		{8948, 100 * time.Millisecond, 1e-5, 277, 754, 754},
	} {
		for name, v := range map[string][2]float64{
			"reno":  {float64(Mathis(c.mss, c.rtt, c.p, false)) / 1e6, c.reno},
			"cubic": {float64(Cubic(c.mss, c.rtt, c.p)) / 1e6, c.cubic},
			"bound": {float64(LossBound(c.mss, c.rtt, c.p)) / 1e6, c.bound},
		} {
			must.True(t, math.Abs(v[0]-v[1]) <= 0.005*v[1], "%s, MSS %d, %v, p %g: %.2f, want %g Mbit/s", name, c.mss, c.rtt, c.p, v[0], v[1])
		}
	}
	for c, got := range map[float64]float64{1.2247: mathisC(false), 0.8660: mathisC(true), 1.054: cubicK()} {
		must.True(t, math.Abs(got-c) <= 0.0005, "constant %.5f, want %g", got, c)
	}
}

func TestLossBudgetExamples(t *testing.T) {
	for _, c := range []struct {
		target units.BitRate
		rtt    time.Duration
		want   float64
	}{
		{1e9, 10 * time.Millisecond, 2.0e-6},
		{10e9, 100 * time.Millisecond, 2.0e-10},
	} {
		got := LossBudget(c.target, 1448, c.rtt)
		must.True(t, math.Abs(got-c.want) <= 0.02*c.want, "LossBudget(%v, 1448, %v) = %.3g, want %g", c.target, c.rtt, got, c.want)
	}
}

// TestTimeoutBound, by hand: MSS 1448, 0.684 ms, a timer of 0.2 s and a loss of 3 % give 0.684
// ms * 0.14142 = 0.0967 ms, and 0.2 s * 3 * sqrt(0.01125) * 0.03 * 1.0288 = 1.9643 ms, so that
// a segment takes 2.0610 ms. Without losses it equals Mathis.
func TestTimeoutBound(t *testing.T) {
	rtt, timer := 684*time.Microsecond, 200*time.Millisecond
	if got := float64(TimeoutBound(1448, rtt, timer, 0.03)); math.Abs(got/5.6205e6-1) > 0.001 {
		t.Errorf("%.5g, want 5.6205 Mbit/s", got)
	}
	if got := float64(TimeoutBound(1448, rtt, timer, 1e-8) / Mathis(1448, rtt, 1e-8, false)); math.Abs(got-1) > 0.002 {
		t.Errorf("%g of Mathis at next to no loss", got)
	}
	got := float64(TimeoutBound(1448, rtt, timer, 0))
	must.True(t, math.IsInf(got, 1), "%g without losses", got)
}

func TestLossEdges(t *testing.T) {
	ms := time.Millisecond
	for name, v := range map[string][2]float64{
		"no loss":           {float64(LossBound(1448, ms, 0)), math.Inf(1)},
		"no delay":          {float64(LossBound(1448, 0, 0.1)), math.Inf(1)},
		"no segment":        {float64(LossBound(0, ms, 0.1)), 0},
		"all lost":          {float64(Mathis(1448, ms, 2, true)), float64(Mathis(1448, ms, 1, true))},
		"budget no delay":   {LossBudget(1e9, 1448, 0), 1},
		"budget no target":  {CubicLossBudget(0, 1448, ms), 1},
		"budget no segment": {CubicLossBudget(1e9, 0, ms), 0},
		"budget at most 1":  {LossBudget(1, 1448, ms), 1},
	} {
		must.Equal(t, v[0], v[1], "%s", name)
	}
}

func TestSmallest(t *testing.T) {
	inf, nan := units.BitRate(math.Inf(1)), units.BitRate(math.NaN())
	limits := []Limit{{"loss", inf, "no loss seen"}, {"cpu", nan, ""}, {"wire", 941e6, "x"}, {"window", 52e6, "y"}, {"disk", 52e6, "z"}}
	got, ok := Smallest(limits)
	must.True(t, ok && got == limits[3], "Smallest = %+v, %v, want the window", got, ok)
	got, ok = Smallest(limits[:2])
	must.True(t, !ok && got == (Limit{}), "Smallest of unbounded = %+v, %v", got, ok)
	_, ok = Smallest(nil)
	must.True(t, !ok, "Smallest of nothing found something")
}

func TestGoodputLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Wire{
			Rate:       units.BitRate(rapid.Float64Range(1e3, 1e12).Draw(t, "rate")),
			MTU:        rapid.IntRange(minMTU6, maxMTU-1).Draw(t, "mtu"),
			VLANTags:   rapid.IntRange(0, maxVLANTags-1).Draw(t, "tags"),
			IPv6:       rapid.Bool().Draw(t, "ipv6"),
			Timestamps: rapid.Bool().Draw(t, "timestamps"),
			UDP:        rapid.Bool().Draw(t, "udp"),
		}
		goodput := func(w Wire) units.BitRate {
			g, err := w.Goodput()
			must.Dof(t, err, "%+v", w)
			return g
		}
		g := goodput(w)
		must.Need(t, g > 0 && g < w.Rate, "goodput %v of a link of %v", g, w.Rate)
		larger, tagged, faster := w, w, w
		larger.MTU++
		tagged.VLANTags++
		faster.Rate *= 2
		if goodput(larger) <= g || goodput(tagged) >= g || math.Abs(float64(goodput(faster)/g)-2) > 1e-9 {
			t.Fatalf("%+v: goodput %v, larger MTU %v, one tag more %v, twice the rate %v",
				w, g, goodput(larger), goodput(tagged), goodput(faster))
		}
		payload, _ := w.Payload()
		packets, _ := w.PacketsPerSecond()
		byPackets := packets * float64(payload) * 8
		must.Need(t, math.Abs(byPackets/float64(g)-1) <= 1e-9, "packets carry %g, goodput is %v", byPackets, g)
		half, _ := w.HalfDuplex()
		must.Need(t, half <= g && (half == g) == w.UDP, "half duplex %v, goodput %v", half, g)
	})
}

func TestWindowLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := units.Bytes(rapid.Int64Range(1, int64(MaxWindow)).Draw(t, "window"))
		rtt := time.Duration(rapid.Int64Range(int64(time.Microsecond), int64(10*time.Second)).Draw(t, "rtt"))
		rate := WindowBound(window, rtt)
		back := WindowFor(rate, rtt)
		must.Need(t, back >= window && back <= window+1, "%v over %v gives %v, which needs %v", window, rtt, rate, back)
		must.Need(t, WindowBound(window+1, rtt) > rate && WindowBound(window, rtt+1) < rate, "%v over %v: not monotonic", window, rtt)
	})
}

func TestLossLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mss := rapid.IntRange(500, 9000).Draw(t, "mss")
		rtt := time.Duration(rapid.Int64Range(int64(10*time.Microsecond), int64(time.Second)).Draw(t, "rtt"))
		p := math.Pow(10, rapid.Float64Range(-10, -1).Draw(t, "log p"))
		reno, bound := Mathis(mss, rtt, p, false), LossBound(mss, rtt, p)
		must.Need(t, !(Mathis(mss, rtt, p, true) >= reno) && !(bound < reno) && !(bound < Cubic(mss, rtt, p)), "order of the bounds: reno %v, bound %v", reno, bound)
		must.Need(t, LossBound(mss, rtt, p*1.01) < bound && LossBound(mss, rtt*2, p) < bound && LossBound(mss+1, rtt, p) > bound, "not monotonic")
		if back := LossBudget(reno, mss, rtt); math.Abs(back/p-1) > 1e-9 {
			t.Fatalf("LossBudget(Mathis(%g)) = %g", p, back)
		}
		back := CubicLossBudget(bound, mss, rtt)
		must.Need(t, !(math.Abs(back/p-1) > 1e-9), "CubicLossBudget(LossBound(%g)) = %g", p, back)
	})
}

// TestAckLoad: the vectors of diagnosis-2.md section 1, whose lab counts 18 bytes around a
// packet, between the 14 of tbf and the 38 of Ethernet.
func TestAckLoad(t *testing.T) {
	for _, c := range []struct {
		acks        float64
		back        units.BitRate
		least, most float64
	}{
		{178.6, 0.1e6 * 1448 / 1518, 0.945, 1.269},
		{89.3, 0.05e6 * 1448 / 1518, 0.945, 1.269},
		{1894, 1e6 * 1448 / 1514, 1, 1.35},
		{1894, 0, 0, 0}, {0, 1e6, 0, 0},
	} {
		least, most := AckLoad(c.acks, 1500, 1448, c.back)
		must.True(t, math.Abs(least-c.least) < 0.01 && math.Abs(most-c.most) < 0.01, "%g acknowledgements on %v: %.3f to %.3f, want %.2f to %.2f", c.acks, c.back, least, most, c.least, c.most)
	}
}

// both is two directions, none of which a window limits alone.
func both(to, from, toAlone, fromAlone units.BitRate) AtOnce {
	return AtOnce{To: to, From: from, ToAlone: toAlone, FromAlone: fromAlone}
}

func TestTogether(t *testing.T) {
	must.Equal(t, both(9.1e9, 9.2e9, 16e9, 16e9).Together()+", "+both(9e9, 7.2e9, 16e9, 15e9).Together(), "hardly more than, no more than")
}

// TestSharing checks the measured paths of diagnosis-2.md section 3, both ways round.
func TestSharing(t *testing.T) {
	for name, c := range map[string]struct {
		rates AtOnce
		u     float64
		want  Sharing
	}{
		"full duplex, alike":             {both(6.7e6, 6.9e6, 6.9e6, 7.6e6), 1.88, Apart},
		"one medium, alike":              {both(3.1e6, 3.6e6, 7.4e6, 7.4e6), 0.90, OneLimit},
		"one medium, rates of 8 and 2":   {both(0.5e6, 1.7e6, 6.9e6, 1.8e6), 1.02, OneLimit},
		"full duplex, rates of 8 and 1":  {both(3.7e6, 0.89e6, 7.6e6, 0.95e6), 1.42, BehindData},
		"one medium, 8 and 1, by UDP":    {AtOnce{0.6e6, 0.9e6, 7.6e6, 0.95e6, false, fact.Known(false, "")}, 1.03, OneLimit},
		"full duplex, by UDP":            {AtOnce{0.6e6, 0.9e6, 7.6e6, 0.95e6, false, fact.Known(true, "")}, 1.03, BehindData},
		"the same with bbr":              {both(1.074e6, 0.907e6, 7.522e6, 0.933e6), 1.11, BehindData},
		"a bus that one does not fill":   {both(11e6, 9e6, 20e6, 12e6), 1.30, OneLimit},
		"full duplex, rates of 3 and 1":  {both(2.6e6, 0.95e6, 3e6, 1e6), 1.82, Apart},
		"unequal and undisturbed":        {both(7.4e6, 0.93e6, 7.6e6, 0.95e6), 1.95, Apart},
		"processors that have to share":  {both(0.7e9, 0.7e9, 1e9, 1e9), 1.40, Apart},
		"a window limits one alone":      {AtOnce{42.9e6, 427.2e6, 223.8e6, 429.3e6, true, fact.Of[bool]{}}, 1.19, Apart},
		"nothing moves in both at once":  {both(0.2e9, 0.1e9, 1e9, 1e9), 0.30, Apart},
		"nothing known of one direction": {both(1e6, 1e6, 2e6, 0), 0, Apart},
	} {
		for _, r := range []AtOnce{c.rates, {c.rates.From, c.rates.To, c.rates.FromAlone, c.rates.ToAlone, c.rates.Windowed, c.rates.Pass}} {
			must.True(t, math.Abs(r.Time()-c.u) < 0.01 && r.Sharing() == c.want, "%s: u %.2f, want %.2f; %q, want %q", name, r.Time(), c.u, r.Sharing(), c.want)
		}
	}
}
