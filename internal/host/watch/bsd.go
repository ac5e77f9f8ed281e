package watch

import (
	"encoding/binary"
	"fmt"
	"time"
)

// The structures of FreeBSD and macOS are decoded here by offsets, so that the
// decoding is tested on every system. All are little-endian on the processors
// that linerate runs on.

// Words of struct udpstat and struct tcpstat. FreeBSD's words have 64 bits
// (sys/netinet/udp_var.h, tcp_var.h, 12 and later), those of macOS 32
// (bsd/netinet/udp_var.h, tcp_var.h).
const (
	freebsdUDPIn, freebsdUDPBadSum, freebsdUDPNoPort, freebsdUDPFull, freebsdUDPOut = 0, 2, 5, 7, 10
	darwinUDPIn, darwinUDPBadSum, darwinUDPNoPort, darwinUDPFull, darwinUDPOut      = 0, 2, 4, 6, 9

	freebsdTCPTimeouts, freebsdTCPOut, freebsdTCPRetransmitted, freebsdTCPIn, freebsdTCPBadSum, freebsdTCPOutOfOrder = 11, 17, 20, 28, 31, 39
	darwinTCPTimeouts, darwinTCPOut, darwinTCPRetransmitted                                                          = 10, 15, 18
)

// Words of FreeBSD's struct ipstat (sys/netinet/ip_var.h), of 64 bits.
const freebsdIPFragmentTimeout, freebsdIPOutDropped, freebsdIPCannotFragment, freebsdIPNoRoute = 8, 16, 20, 22

// word64 returns word i of b.
func word64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// word32 returns word i of b.
func word32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// atLeast checks that what a sysctl returned has n bytes.
func atLeast(b []byte, n int, name string) error {
	if len(b) < n {
		return fmt.Errorf("%s: %d bytes: %w", name, len(b), errShape)
	}
	return nil
}

func decodeFreeBSDUDP(b []byte, v *values) error {
	if err := atLeast(b, 8*(freebsdUDPOut+1), "net.inet.udp.stats"); err != nil {
		return err
	}
	v.set(udpIn, word64(b, freebsdUDPIn))
	v.set(udpChecksum, word64(b, freebsdUDPBadSum))
	v.set(udpNoPort, word64(b, freebsdUDPNoPort))
	v.set(udpReceiveBuffer, word64(b, freebsdUDPFull))
	v.set(udpOut, word64(b, freebsdUDPOut))
	return nil
}

func decodeFreeBSDTCP(b []byte, v *values) error {
	if err := atLeast(b, 8*(freebsdTCPOutOfOrder+1), "net.inet.tcp.stats"); err != nil {
		return err
	}
	v.set(tcpTimeouts, word64(b, freebsdTCPTimeouts))
	v.set(tcpOut, word64(b, freebsdTCPOut)-word64(b, freebsdTCPRetransmitted)) // FreeBSD counts both
	v.set(tcpRetransmitted, word64(b, freebsdTCPRetransmitted))
	v.set(tcpIn, word64(b, freebsdTCPIn))
	v.set(tcpInErrors, word64(b, freebsdTCPBadSum))
	v.set(tcpOutOfOrder, word64(b, freebsdTCPOutOfOrder))
	return nil
}

func decodeFreeBSDIP(b []byte, v *values) error {
	if err := atLeast(b, 8*(freebsdIPNoRoute+1), "net.inet.ip.stats"); err != nil {
		return err
	}
	v.set(ipReassembly, word64(b, freebsdIPFragmentTimeout))
	v.set(ipOutDiscards, word64(b, freebsdIPOutDropped))
	v.set(ipFragment, word64(b, freebsdIPCannotFragment))
	v.set(ipNoRoute, word64(b, freebsdIPNoRoute))
	return nil
}

// decodeFreeBSDCores reads kern.cp_times: for each core five longs of ticks,
// user, nice, system, interrupt and idle (sys/sys/resource.h CPUSTATES). tick
// is what kern.clockrate says that a tick of the statistics clock lasts.
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

// decodeClockRate returns the length of a tick of the statistics clock from
// kern.clockrate, struct clockinfo (sys/sys/time.h): five ints, hz, tick,
// spare, stathz, profhz.
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

// readZones asks for what FreeBSD counts of its network buffers, words of 64 bits
// under names such as vm.uma.mbuf_cluster.stats.fails. Older systems than 13 have
// no such names: 12 tells all zones in one piece. Where there is neither, the
// counters stay unknown.
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
		_ = decodeZoneStats(b, v) // what is of another form stays unknown too
	}
}

func decodeDarwinUDP(b []byte, v *values) error {
	if err := atLeast(b, 4*(darwinUDPOut+1), "net.inet.udp.stats"); err != nil {
		return err
	}
	v.setNarrow(udpIn, word32(b, darwinUDPIn))
	v.setNarrow(udpChecksum, word32(b, darwinUDPBadSum))
	v.setNarrow(udpNoPort, word32(b, darwinUDPNoPort))
	v.setNarrow(udpReceiveBuffer, word32(b, darwinUDPFull))
	v.setNarrow(udpOut, word32(b, darwinUDPOut))
	return nil
}

// decodeDarwinTCP reads net.inet.tcp.stats, which is all zeros for everybody
// but root.
func decodeDarwinTCP(b []byte, v *values) error {
	if err := atLeast(b, 4*(darwinTCPRetransmitted+1), "net.inet.tcp.stats"); err != nil {
		return err
	}
	zero := true
	for _, c := range b {
		zero = zero && c == 0
	}
	if zero {
		return errHidden
	}
	v.setNarrow(tcpTimeouts, word32(b, darwinTCPTimeouts))
	v.setNarrow(tcpOut, word32(b, darwinTCPOut)-word32(b, darwinTCPRetransmitted)) // macOS counts both
	v.setNarrow(tcpRetransmitted, word32(b, darwinTCPRetransmitted))
	return nil
}

// routeMessage says where a routing message of a system has the statistics of
// an interface.
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

// darwinInterface is struct if_msghdr2 with struct if_data64 (bsd/net/if.h,
// if_var.h). It tells no drops on the way out but those of the queue.
func darwinInterface() routeMessage {
	const rtmIfInfo2, data = 0x12, 32
	return routeMessage{rtmIfInfo2, 12, map[id]int{
		nicRxPackets: data + 24, nicRxErrors: data + 32, nicTxPackets: data + 40, nicTxErrors: data + 48, nicCollisions: data + 56,
		nicRxBytes: data + 64, nicTxBytes: data + 72, nicRxDropped: data + 96,
	}}
}

// decode reads what NET_RT_IFLIST or NET_RT_IFLIST2 returned into v.
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
