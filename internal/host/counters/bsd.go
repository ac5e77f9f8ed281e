package counters

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// This file decodes structures of FreeBSD and macOS by offsets, so that the decoding can be
// tested on every system. All are little-endian on the processors that linerate runs on.

// layout says which words of a structure are counters.
type layout struct {
	name   string
	wide   bool // words of 64 bits, else of 32
	words  map[id]int
	adds   bool // add to the values of another family
	repeat bool // retransmissions count as sent, too
}

// freebsdLayouts are struct udpstat, tcpstat and ipstat of FreeBSD 12 and later
// (sys/netinet/udp_var.h, tcp_var.h, ip_var.h), by the names of their sysctls.
func freebsdLayouts() []layout {
	return []layout{
		{name: "net.inet.udp.stats", wide: true, words: map[id]int{udpIn: 0, udpChecksum: 2, udpNoPort: 5, udpReceiveBuffer: 7, udpOut: 10}},
		{name: "net.inet.tcp.stats", wide: true, repeat: true, words: map[id]int{
			tcpTimeouts: 11, tcpOut: 17, tcpRetransmitted: 20, tcpIn: 28, tcpInErrors: 31, tcpOutOfOrder: 39,
		}},
		{name: "net.inet.ip.stats", wide: true, words: map[id]int{ipReassembly: 8, ipOutDiscards: 16, ipFragment: 20, ipNoRoute: 22}},
	}
}

// darwinLayouts are those of macOS (bsd/netinet/udp_var.h, tcp_var.h).
func darwinLayouts() []layout {
	return []layout{
		{name: "net.inet.udp.stats", words: map[id]int{udpIn: 0, udpChecksum: 2, udpNoPort: 4, udpReceiveBuffer: 6, udpOut: 9}},
		{name: "net.inet.tcp.stats", repeat: true, words: map[id]int{tcpTimeouts: 10, tcpOut: 15, tcpRetransmitted: 18}},
	}
}

// decode decodes the structure into v. macOS shows zeros of TCP to all users but root.
func (l layout) decode(b []byte, v *values) error {
	size := 4
	if l.wide {
		size = 8
	}
	if err := atLeast(b, size*(1+slices.Max(slices.Collect(maps.Values(l.words)))), l.name); err != nil {
		return err
	}
	if l.repeat && !l.wide && !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return errHidden
	}
	for i, word := range l.words {
		switch {
		case l.wide:
			v.set(i, word64(b, word))
		case l.adds:
			v.raiseNarrow(i, word32(b, word))
		default:
			v.setNarrow(i, word32(b, word))
		}
	}
	if l.repeat && l.wide {
		v[tcpOut].n -= v[tcpRetransmitted].n
	} else if l.repeat {
		v.setNarrow(tcpOut, uint32(v[tcpOut].n-v[tcpRetransmitted].n))
	}
	return nil
}

// word64 returns word i of b.
func word64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// word32 returns word i of b.
func word32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// atLeast checks that the result of a sysctl has n bytes.
func atLeast(b []byte, n int, name string) error {
	if len(b) < n {
		return fmt.Errorf("%s: %d bytes: %w", name, len(b), errShape)
	}
	return nil
}

// decodeFreeBSDCores decodes kern.cp_times: for each core five longs of ticks, user, nice,
// system, interrupt and idle (sys/sys/resource.h CPUSTATES). tick is the length of a tick of
// the statistics clock, from kern.clockrate.
func decodeFreeBSDCores(b []byte, tick time.Duration) ([]core, error) {
	const states = 5
	if len(b) == 0 || len(b)%(8*states) != 0 || tick <= 0 {
		return nil, fmt.Errorf("kern.cp_times: %d bytes: %w", len(b), errShape)
	}
	cores := make([]core, len(b)/(8*states))
	for i := range cores {
		var t [states]time.Duration
		for k := range t {
			n := word64(b, i*states+k)
			if n > uint64(1<<62/tick) {
				return nil, fmt.Errorf("kern.cp_times: %d ticks: %w", n, errShape)
			}
			t[k] = time.Duration(n) * tick
		}
		cores[i] = core{id: i, user: t[0] + t[1], system: t[2], irq: t[3]}
	}
	return cores, nil
}

// decodeClockRate returns the length of a tick of the statistics clock from kern.clockrate,
// struct clockinfo (sys/sys/time.h): five ints, hz, tick, spare, stathz, profhz.
func decodeClockRate(b []byte) (time.Duration, error) {
	const stathz = 3
	if err := atLeast(b, 4*(stathz+1), "kern.clockrate"); err != nil {
		return 0, err
	}
	n := word32(b, stathz)
	if n == 0 || n > 1e6 {
		return 0, fmt.Errorf("kern.clockrate: %d Hz: %w", n, errShape)
	}
	return time.Second / time.Duration(n), nil
}

// readZones reads FreeBSD's counters of network buffers, words of 64 bits with names such as
// vm.uma.mbuf_cluster.stats.fails. Before FreeBSD 13 there are no such names: 12 returns all
// zones at once. If neither exists, the counters stay unknown.
func readZones(sysctl func(string, ...int) ([]byte, error), v *values) {
	some := false
	ask := func(i id, name string) {
		if b, err := sysctl(name); err == nil && len(b) == 8 {
			v.set(i, word64(b, 0))
			some = true
		}
	}
	for _, z := range zones() {
		ask(z.failed, "vm.uma."+z.name+".stats.fails")
		if z.bounded {
			ask(z.waits, "vm.uma."+z.name+".limit.sleeps")
		}
	}
	if some {
		return
	}
	if b, err := sysctl("vm.zone_stats"); err == nil {
		_ = decodeZoneStats(b, v) // in another format they stay unknown too
	}
}

// routeMessage says where a routing message of a system has the statistics of an interface.
type routeMessage struct {
	kind, index int // type of the message; offset of the interface's index
	fields      map[id]int
}

// freebsdInterface is struct if_msghdr with struct if_data (sys/net/if.h).
func freebsdInterface() routeMessage {
	const rtmIfInfo, data = 0xe, 16
	return routeMessage{rtmIfInfo, 12, map[id]int{
		nicRxPackets: data + 24, nicRxErrors: data + 32, nicTxPackets: data + 40, nicTxErrors: data + 48, nicCollisions: data + 56,
		nicRxBytes: data + 64, nicTxBytes: data + 72, nicRxDropped: data + 96, nicTxDropped: data + 104,
	}}
}

// darwinInterface is struct if_msghdr2 with struct if_data64 (bsd/net/if.h, if_var.h). Its
// only drops of sent packets are those of the queue.
func darwinInterface() routeMessage {
	const rtmIfInfo2, data = 0x12, 32
	return routeMessage{rtmIfInfo2, 12, map[id]int{
		nicRxPackets: data + 24, nicRxErrors: data + 32, nicTxPackets: data + 40, nicTxErrors: data + 48, nicCollisions: data + 56,
		nicRxBytes: data + 64, nicTxBytes: data + 72, nicRxDropped: data + 96,
	}}
}

// decode decodes the result of NET_RT_IFLIST or NET_RT_IFLIST2 into v.
func (m routeMessage) decode(b []byte, index int, v *values) error {
	end := 0
	for _, at := range m.fields {
		end = max(end, at+8)
	}
	for len(b) >= 4 {
		n := int(binary.LittleEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return fmt.Errorf("list of interfaces: message of %d bytes in %d: %w", n, len(b), errShape)
		}
		one := b[:n]
		b = b[n:]
		if int(one[3]) != m.kind || n < end || int(binary.LittleEndian.Uint16(one[m.index:])) != index {
			continue
		}
		for i, at := range m.fields {
			v.set(i, binary.LittleEndian.Uint64(one[at:]))
		}
		return nil
	}
	return fmt.Errorf("list of interfaces: %d is not in it: %w", index, errShape)
}
