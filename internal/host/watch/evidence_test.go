package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

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
	must.Equal(t, find(got, nicDriver, "eth0 tx1_packets"), 0, "a queue is told twice")
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

While traffic flows, each host reads its own counters once a second. Samples with these names carry what happened in their interval; the report of an end carries, under ` + "`counters`" + `, how far each moved in the run. Only what moved is listed. ` + "`counters_read`" + ` says what was looked at: where it names a group, a counter of that group that is not listed did not move; where it does not, nobody knows.

This page is written by ` + "`go test ./internal/host/watch -update`" + ` from the list in ` + "`internal/host/watch`" + `. *Counted in* names the place in Linux; FreeBSD (` + "`kern.cp_times`, `net.inet.{ip,udp,tcp}.stats`, `NET_RT_IFLIST`, `vm.uma`, `kern.msgbuf`" + `), macOS (` + "`net.inet.{udp,tcp}.stats`, `NET_RT_IFLIST2`" + `; no cores, and TCP for root only) and Windows (` + "`NtQuerySystemInformation`, `Get{Ip,Udp,Tcp}StatisticsEx`, `GetIfEntry2`" + `) fill in what they count too.

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
