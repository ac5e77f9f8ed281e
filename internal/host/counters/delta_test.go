package counters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
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

// TestLogLines checks the patterns against lines as kernels write them: each counts once, and
// only if it is about the watched interface or the machine.
func TestLogLines(t *testing.T) {
	for _, c := range []struct {
		line string
		want id // -1 if no pattern matches
	}{
		{"NETDEV WATCHDOG: eth0 (8139too): transmit queue 0 timed out", logResets},
		{"e1000e 0000:00:19.0 eth0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5120 ms", logResets},
		{"e1000e 0000:00:19.0 eth0: Detected Hardware Unit Hang:", logResets},
		{"e1000e 0000:00:19.0 eth0: Reset adapter unexpectedly", logResets},
		{"eth0: watchdog timeout", logResets},
		{"NETDEV WATCHDOG: eth01 (8139too): transmit queue 0 timed out", -1},
		{"NETDEV WATCHDOG: xeth0 (8139too): transmit queue 0 timed out", -1},
		{"eth0.5: watchdog timeout", -1},
		{"watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", -1},
		{"swapper/1: page allocation failure: order:3, mode:0x40a20(GFP_ATOMIC|__GFP_COMP), nodemask=(null),cpuset=/,mems_allowed=0", logAllocations},
		{"kworker/0:1: page allocation failure: order:0, mode:0x40a20(GFP_ATOMIC|__GFP_COMP)", -1},
		{"nf_conntrack: nf_conntrack: table full, dropping packet", logTableFull},
		{"nf_conntrack: nf_conntrack: table full in netns 1, dropping packet", logTableFull},
		{"nf_conntrack version 0.5.0 (16384 buckets, 65536 max)", -1},
		{"[zone: mbuf_cluster] kern.ipc.nmbclusters limit reached", logBuffers},
		{"[zone: mbuf_jumbo_9k] kern.ipc.nmbjumbo9 limit reached", logBuffers},
		{"re0: no memory for jumbo buffers", logBuffers},
		{"[zone: unpcb] kern.ipc.maxsockets limit reached", -1},
		{"eth0: NIC Link is Down", -1},
	} {
		l := logLines{device: "eth0", count: map[id]uint64{}}
		l.add(c.line)
		var v values
		l.set(&v)
		for _, one := range logCounters() {
			want := uint64(0)
			if one.id == c.want {
				want = 1
			}
			got := v[one.id]
			must.True(t, got.known && got.n == want, "%q: %s is %d, want %d", c.line, one.name, got.n, want)
		}
	}
}

// The names that drivers of Linux 6.x use, from their sources.
func TestTransmitQueues(t *testing.T) {
	for name, want := range map[string]int{
		"tx_queue_3_packets": 3, "tx0_packets": 0, "tx_11_packets": 11, "tx-7.packets": 7, "tx-7.tx_packets": 7, "queue_4_tx_cnt": 4, "[2]: tx_ucast_packets": 2,
		"tx_packets": -1, "rx_queue_3_packets": -1, "tx_queue_3_bytes": -1, "tx0_xdp_tx": -1, "tx0_tx_timeouts": -1, "[2]: rx_ucast_packets": -1,
	} {
		got, ok := txQueue(name)
		if !ok {
			got = -1
		}
		must.Equal(t, got, want, "%s: queue", name)
	}
	names := []string{"rx_missed", "tx0_packets", "tx1_packets", "tx2_packets"}
	a := Snapshot{device: "eth0", driver: driverValues{names, []uint64{5, 10, 20, 30}}}
	got := Delta(a, Snapshot{device: "eth0", driver: driverValues{names, []uint64{6, 15, 920, 30}}})
	want := []model.Counter{{Name: nicDriver, Of: "eth0 rx_missed", Value: 1}, {Name: queueSent, Of: "eth0 queue 1", Value: 900}, {Name: queueSent, Of: "eth0 queue 0", Value: 5}}
	for _, w := range want {
		must.True(t, slices.Contains(got, w), "%+v is not among %+v", w, got)
	}
	must.Equal(t, find(got, countersRead, "queue"), 3, "queues were read")
	must.Equal(t, find(got, nicDriver, "eth0 tx1_packets"), 0, "a queue counts twice")
}

// TestTrack reads the file as Linux 6.18 shows it on two cores, with drops added.
func TestTrack(t *testing.T) {
	const file = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n" +
		"00000000  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000a2f 00000001 00000000  00000000 00000000 00000000 00000000\n" +
		"00000000  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000002 00000000  00000000 00000000 00000000 00000000\n"
	var v values
	err := parseTrack([]byte(file), &v)
	must.True(t, err == nil && v[trackDropped].n == 0xa30 && v[trackEvicted].n == 3, "%+v %+v %v", v[trackDropped], v[trackEvicted], err)
	for _, bad := range []string{"", "entries drop\n", "entries drop\n0 x\n", "entries drop\n0\n", "entries\n0\n"} {
		var v values
		must.Is(t, parseTrack([]byte(bad), &v), errShape, "%q", bad)
	}
}

// TestZones reads the names under which FreeBSD 13 and later count (sys/vm/uma_core.c
// zone_alloc_sysctl). An older system lacks them, so the counters are unknown.
func TestZones(t *testing.T) {
	told := map[string]uint64{
		"vm.uma.mbuf.stats.fails": 1, "vm.uma.mbuf_cluster.stats.fails": 2, "vm.uma.mbuf_cluster.limit.sleeps": 3, "vm.uma.mbuf_jumbo_page.stats.fails": 4,
		"vm.uma.mbuf_jumbo_page.limit.sleeps": 5, "vm.uma.mbuf_jumbo_9k.stats.fails": 6, "vm.uma.mbuf_jumbo_9k.limit.sleeps": 7,
		"vm.uma.mbuf_jumbo_16k.stats.fails": 8, "vm.uma.mbuf_jumbo_16k.limit.sleeps": 9,
	}
	sysctl := func(name string, _ ...int) ([]byte, error) {
		n, ok := told[name]
		if !ok {
			return nil, fmt.Errorf("sysctl %s: %w", name, errors.ErrUnsupported)
		}
		return binary.LittleEndian.AppendUint64(nil, n), nil
	}
	var a, b values
	readZones(sysctl, &a)
	told["vm.uma.mbuf_cluster.stats.fails"], told["vm.uma.mbuf_jumbo_9k.limit.sleeps"] = 102, 57
	readZones(sysctl, &b)
	got := Delta(Snapshot{values: a}, Snapshot{values: b})
	must.True(t, find(got, "mbuf_denied", "clusters of 2 KiB") == 100 && find(got, "mbuf_delayed", "clusters of 9 KiB") == 50 && find(got, countersRead, "mbuf") == 9, "%+v", got)
	var none values
	readZones(func(string, ...int) ([]byte, error) { return nil, errors.ErrUnsupported }, &none)
	got = Delta(Snapshot{values: none}, Snapshot{values: none})
	must.True(t, find(got, countersRead, "mbuf") == 0, "%+v", got)
}

const document = "../../../docs/counters.md"

// page returns the contents of docs/counters.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# What a host counts

While traffic flows, each host reads its own counters once a second. Samples with these names carry what happened in their interval; the report of an end carries, under ` + "`counters`" + `, how far each moved in the run. Only what moved is listed. ` + "`counters_read`" + ` says what was looked at: where it names a group, a counter of that group that is not listed did not move; a group that it does not name was not read.

This page is written by ` + "`go test ./internal/host/counters -update`" + ` from the list in ` + "`internal/host/counters`" + `. *Counted in* names the place in Linux; FreeBSD (` + "`kern.cp_times`, `net.inet.{ip,udp,tcp}.stats`, `NET_RT_IFLIST`, `vm.uma`, `kern.msgbuf`" + `), macOS (` + "`net.inet.{udp,tcp}.stats`, `NET_RT_IFLIST2`" + `; no cores, and TCP for root only) and Windows (` + "`NtQuerySystemInformation`, `Get{Ip,Udp,Tcp}StatisticsEx`, `GetIfEntry2`" + `) fill in what they count too.

Whose counters: groups ` + "`ip`, `udp`, `tcp`, `ecn` and `track`" + ` are the network namespace's, ` + "`nic`, `driver`, `queue` and `qdisc`" + ` those of the interface that carries the traffic, for all its traffic; ` + "`cpu`, `softnet`, `mbuf` and `log`" + ` are the whole machine's, in a container too. ` + "`of`" + ` names the core (` + "`cpu3`; empty for all of them; `other cpus` for those of a large machine that are not listed" + `), the interface (` + "`eth0`" + `), the interface and the driver's own name (` + "`eth0 rx_no_buffer_count`" + `), or ` + "`IPv6`" + ` where Linux keeps a counter apart for it. On machines with more than 64 cores only the 16 busiest are listed.

Kinds: a *share* is in samples only, a *time* in counters only; a *level* is what stands at the end of the interval, in samples only; a *count* is in both.
`)
	group := Group("")
	for _, d := range Definitions() {
		if d.Group != group {
			group = d.Group
			fmt.Fprintf(&b, "\n## %s\n\n| Name | Kind | Unit | Meaning | Counted in |\n|---|---|---|---|---|\n", group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Kind, d.Unit, d.Meaning, d.Source)
	}
	return b.String()
}

// TestDocument compares docs/counters.md with the list.
func TestDocument(t *testing.T) {
	must.Golden(t, document, page())
	sections := map[string]bool{}
	for l := range strings.Lines(page()) {
		must.True(t, !strings.HasPrefix(l, "## ") || !sections[l], "%s stands twice: the list is not in order of groups", strings.TrimSpace(l))
		sections[l] = true
	}
}
