package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// find returns the counter's value, or 0 if it is not listed.
func find(all []model.Counter, name, of string) int64 {
	for _, c := range all {
		if c.Name == name && c.Of == of {
			return c.Value
		}
	}
	return 0
}

func sample(all []model.Sample, name, of string) (float64, bool) {
	for _, s := range all {
		if string(s.Metric) == name && s.Of == of {
			return s.Value, true
		}
	}
	return 0, false
}

func TestMoved(t *testing.T) {
	wide := func(n uint64) value { return value{n: n, known: true} }
	narrow := func(n uint32) value { return value{n: uint64(n), known: true, narrow: true} }
	for name, c := range map[string]struct {
		a, b value
		want int64
		ok   bool
	}{
		"forward":           {wide(5), wide(9), 4, true},
		"still":             {wide(5), wide(5), 0, true},
		"reset":             {wide(5), wide(3), 0, false},
		"beyond 32 bits":    {wide(1 << 33), wide(1<<33 + 7), 7, true},
		"too far":           {wide(0), wide(1<<64 - 1), 0, false},
		"unknown first":     {value{}, wide(5), 0, false},
		"unknown last":      {wide(5), value{}, 0, false},
		"narrow forward":    {narrow(5), narrow(9), 4, true},
		"narrow ran over":   {narrow(1<<32 - 3), narrow(4), 7, true},
		"narrow reset":      {narrow(1000), narrow(0), 0, false},
		"widths differ":     {narrow(1), wide(2), 0, false},
		"narrow long reset": {narrow(1 << 31), narrow(1<<31 - 1), 0, false},
	} {
		got, ok := moved(c.a, c.b)
		must.True(t, got == c.want && ok == c.ok, "%s: %d, %v, want %d, %v", name, got, ok, c.want, c.ok)
	}
}

// host is a snapshot of a host with n cores after it has run for at. Core i spent i/(10n) of
// that time in user mode, half as much in softirq and a quarter as much stolen.
func host(n int, at time.Duration) Snapshot {
	s := Snapshot{device: "eth0", parts: coreParts{user: true, system: true, irq: true, softirq: true, steal: true}}
	for i := range n {
		part := at / time.Duration(10*n) * time.Duration(i)
		s.cores = append(s.cores, core{id: i, user: part, softirq: part / 2, steal: part / 4})
		s.queues = append(s.queues, queue{id: i, processed: uint32(i) * uint32(at.Seconds()), dropped: uint32(at.Seconds())})
	}
	return s
}

func TestSamplesOfCores(t *testing.T) {
	a, b := host(4, 0), host(4, seconds(40))
	got := Samples(model.Far, a, b, seconds(7), seconds(40))
	if v, ok := sample(got, cpuBusy, "cpu2"); !ok || v < 0.0749 || v > 0.0751 {
		t.Errorf("cpu2 busy %v", v) // 2/40 of the time, and half of that in softirq
	}
	v, ok := sample(got, cpuBusy, "cpu0")
	must.True(t, ok && v == 0, "an idle core is listed as such: %v, %v", v, ok)
	_, ok = sample(got, cpuSoftIRQ, "cpu0")
	must.True(t, !ok, "softirq of a core that had none")
	v, ok = sample(got, cpuBusy, "")
	must.True(t, ok && !(v < 0.2249) && !(v > 0.2251), "all cores %v", v)
	for _, s := range got {
		must.Need(t, s.Host == model.Far && s.Start == seconds(7) && s.Length == seconds(40) && s.Direction == "", "%+v", s)
	}
	must.True(t, Samples(model.Far, a, b, 0, 0) == nil, "samples of no time")
}

// TestManyCores: with many cores the lists stay short and the sums correct.
func TestManyCores(t *testing.T) {
	a, b := host(200, 0), host(200, seconds(100))
	got := Samples(model.Near, a, b, 0, seconds(100))
	listedCores := 0
	for _, s := range got {
		if string(s.Metric) == cpuBusy && s.Of != "" {
			listedCores++
			var i int
			must.True(t, must.Err(fmt.Sscanf(s.Of, "cpu%d", &i)) == nil && i >= 184, "%s is not one of the busiest", s.Of)
		}
	}
	must.True(t, listedCores == listed && len(got) <= 200, "%d cores listed, %d samples", listedCores, len(got))
	v, _ := sample(got, cpuBusy, "") // 1.5 * (0 + … + 199) / 2000
	must.True(t, !(v < 14.92) && !(v > 14.93), "all cores %v", v)
	counters := Delta(a, b)
	var dropped int64
	for _, c := range counters {
		if c.Name == softnetDropped {
			dropped += c.Value
		}
	}
	must.True(t, dropped == 200*100 && find(counters, softnetDropped, others) == 184*100, "dropped %d, of the others %d", dropped, find(counters, softnetDropped, others))
	must.True(t, len(counters) <= 120, "%d counters", len(counters))
}

func TestCoresComeAndGo(t *testing.T) {
	at := func(user ...time.Duration) Snapshot { // index is the core's id; negative if it is missing
		s := Snapshot{parts: coreParts{user: true}}
		for i, u := range user {
			if u >= 0 {
				s.cores = append(s.cores, core{id: i, user: u})
			}
		}
		return s
	}
	each, sum := coreMoves(at(1, -1, 3, 9), at(5, 2, 8, 4))
	if len(each) != 2 || each[0].id != 0 || each[1].id != 2 || sum.user != 9 {
		t.Errorf("%+v, %+v", each, sum) // cpu1 appeared, cpu3 ran backwards
	}
	each, _ = coreMoves(at(1, 2, 3), at(-1, 5))
	must.True(t, len(each) == 1 && each[0].id == 1 && each[0].user == 3, "%+v", each)
}

func TestDelta(t *testing.T) {
	a, b := Snapshot{device: "eth0"}, Snapshot{device: "eth0"}
	move := func(i id, from, to uint64) { a.values.set(i, from); b.values.set(i, to) }
	move(udpReceiveBuffer, 10, 15)
	move(udp6ReceiveBuffer, 0, 3)
	move(udpIn, 7, 7)
	move(tcpRetransmitted, 9, 2)
	move(nicRxMissed, 1, 100)
	a.values.setNarrow(qdiscDropped, 1<<32-1)
	b.values.setNarrow(qdiscDropped, 9)
	a.qdisc = qdiscKind{known: true, handle: 1}
	b.qdisc = a.qdisc
	a.driver = driverValues{names: []string{"rx_drops", "rx_err"}, values: []uint64{1, 5}}
	b.driver = driverValues{names: a.driver.names, values: []uint64{4, 5}}
	got := Delta(a, b)
	for _, want := range []model.Counter{
		{Name: "udp_receive_buffer_errors", Value: 5}, {Name: "udp_receive_buffer_errors", Of: "IPv6", Value: 3}, {Name: "nic_rx_missed", Of: "eth0", Value: 99},
		{Name: "qdisc_dropped", Of: "eth0", Value: 10}, {Name: nicDriver, Of: "eth0 rx_drops", Value: 3},
		{Name: countersRead, Of: "udp", Value: 3}, {Name: countersRead, Of: "nic", Value: 1}, {Name: countersRead, Of: "qdisc", Value: 1}, {Name: countersRead, Of: "driver", Value: 2},
	} {
		must.Equal(t, find(got, want.Name, want.Of), want.Value, "%s %s", want.Name, want.Of)
	}
	must.Equal(t, len(got), 9, "what did not move, or began anew, is listed: %+v", got)
	b.qdisc.handle = 2 // another qdisc replaced it
	b.driver.values = b.driver.values[:1]
	got = Delta(a, b)
	must.True(t, find(got, "qdisc_dropped", "eth0") == 0 && find(got, countersRead, "qdisc") == 0 && find(got, countersRead, "driver") == 0 && find(got, nicDriver, "eth0 rx_drops") == 0, "counters of two different things: %+v", got)
}

func TestDriverIsBounded(t *testing.T) {
	var a, b Snapshot
	for i := range 1000 {
		a.driver.names = append(a.driver.names, fmt.Sprintf("rx%d_drops", i))
		a.driver.values = append(a.driver.values, 0)
		b.driver.values = append(b.driver.values, uint64(i))
	}
	b.driver.names = a.driver.names
	got := driverMoves(a, b)
	must.True(t, len(got) == mostDriver && got[0].n == 999 && got[mostDriver-1].n == int64(1000-mostDriver), "%d: %+v", len(got), got[:3])
}

// TestDeltaAddsUp: the movements of two parts of a window add up to those of the whole, and
// only listed names are returned.
func TestDeltaAddsUp(t *testing.T) {
	names := map[string]bool{}
	for _, d := range Definitions() {
		names[d.Name] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		var s [3]Snapshot
		for i := range s {
			s[i].qdisc = qdiscKind{known: true}
		}
		for i := range counterCount {
			n := rapid.Uint64Range(0, 1<<62).Draw(t, "start")
			narrow := rapid.Bool().Draw(t, "narrow")
			for k := range s {
				if narrow {
					s[k].values.setNarrow(i, uint32(n))
				} else {
					s[k].values.set(i, n)
				}
				n += uint64(rapid.IntRange(0, 1<<29).Draw(t, "step"))
			}
		}
		first, second, whole := Delta(s[0], s[1]), Delta(s[1], s[2]), Delta(s[0], s[2])
		for _, c := range whole {
			must.Need(t, names[c.Name] && c.Value != 0, "%+v", c)
			got := find(first, c.Name, c.Of) + find(second, c.Name, c.Of)
			must.Need(t, c.Name == countersRead || got == c.Value, "%+v, and in parts %d", c, got)
		}
	})
}

// TestList: ids are dense, names are plain, and the list has every counter that the diagnosis
// reads.
func TestList(t *testing.T) {
	all := counters()
	must.Need(t, len(all) == int(counterCount), "%d counters for %d ids", len(all), counterCount)
	type key struct{ name, of string }
	seen := map[key]bool{}
	for i, c := range all {
		must.True(t, c.id == id(i) && !seen[key{c.name, c.of}], "%d: %+v", i, c)
		seen[key{c.name, c.of}] = true
	}
	names, definitions := map[string]bool{}, Definitions()
	for _, d := range definitions {
		must.True(t, !names[d.Name] && strings.ToLower(d.Name) == d.Name && !strings.ContainsAny(d.Name, " -.") && d.Meaning != "" && d.Source != "" && d.Unit != "" && d.Group != "" && d.Kind != "", "%+v", d)
		names[d.Name] = true
	}
	for _, name := range diagnose.UDPCounters() {
		must.True(t, names[name], "the diagnosis looks at %s, which nobody counts", name)
	}
}
