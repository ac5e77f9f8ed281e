package counters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// errHidden reports that the system shows zeros instead of the numbers.
var errHidden = errors.New("only root is shown them")

// This file decodes structures of Windows by offsets, so that the decoding can be tested on
// every system.

// ntTick is the unit of processor times, 100 ns.
const ntTick = 100 * time.Nanosecond

// ntCore is the size of SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION: idle, kernel, user, DPC and
// interrupt time of 64 bits each, the number of interrupts, padding (ntexapi.h;
// learn.microsoft.com, NtQuerySystemInformation).
const ntCore = 48

// decodeNTCores decodes an array of these. Kernel time includes idle, DPC and interrupt time.
func decodeNTCores(b []byte) ([]core, error) {
	if len(b) == 0 || len(b)%ntCore != 0 {
		return nil, fmt.Errorf("processor times: %d bytes: %w", len(b), errShape)
	}
	cores := make([]core, len(b)/ntCore)
	for i := range cores {
		var t [5]time.Duration
		for k := range t {
			n := binary.LittleEndian.Uint64(b[i*ntCore+8*k:])
			if n > uint64(1<<62/ntTick) {
				return nil, fmt.Errorf("processor times: %d: %w", n, errShape)
			}
			t[k] = time.Duration(n) * ntTick
		}
		idle, kernel, user, dpc, interrupt := t[0], t[1], t[2], t[3], t[4]
		// The five are not read at the same moment.
		cores[i] = core{id: i, user: user, system: max(0, kernel-idle-dpc-interrupt), irq: interrupt, softirq: dpc}
	}
	return cores, nil
}

// ntLayouts are MIB_UDPSTATS, MIB_TCPSTATS and MIB_IPSTATS of one family (udpmib.h, tcpmib.h,
// ipmib.h); six selects IPv6. TCP is added up over both.
func ntLayouts(six bool) (udp, tcp, ip layout) {
	udp = layout{name: "UDP statistics", words: map[id]int{udpIn: 0, udpNoPort: 1, udpInErrors: 2, udpOut: 3}}
	tcp = layout{name: "TCP statistics", adds: true, words: map[id]int{tcpIn: 9, tcpOut: 10, tcpRetransmitted: 11, tcpInErrors: 12}}
	ip = layout{name: "IP statistics", words: map[id]int{ipInDiscards: 7, ipOutDiscards: 11, ipNoRoute: 12, ipReassembly: 16, ipFragment: 18}}
	if six {
		udp.words = map[id]int{udp6In: 0, udp6NoPort: 1, udp6InErrors: 2, udp6Out: 3}
		ip.words = map[id]int{ip6InDiscards: 7, ip6OutDiscards: 11, ip6NoRoute: 12, ip6Reassembly: 16, ip6Fragment: 18}
	}
	return udp, tcp, ip
}
