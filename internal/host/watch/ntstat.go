package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// errHidden is what a system that shows zeros instead of numbers leads to.
var errHidden = errors.New("only root is shown them")

// What Windows returns is decoded here by offsets, so that the decoding is
// tested on every system.

// ntTick is the unit of processor times, 100 ns.
const ntTick = 100 * time.Nanosecond

// ntCore is the size of SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION: idle,
// kernel, user, DPC and interrupt time of 64 bits each, the number of
// interrupts, padding (ntexapi.h; learn.microsoft.com, NtQuerySystemInformation).
const ntCore = 48

// decodeNTCores reads an array of them. Kernel time contains idle, DPC and
// interrupt time.
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

// Words of MIB_UDPSTATS, MIB_TCPSTATS and MIB_IPSTATS, of 32 bits each
// (udpmib.h, tcpmib.h, ipmib.h).
const (
	ntUDPIn, ntUDPNoPort, ntUDPInErrors, ntUDPOut, ntUDPWords             = 0, 1, 2, 3, 5
	ntTCPIn, ntTCPOut, ntTCPRetransmitted, ntTCPInErrors, ntTCPWords      = 9, 10, 11, 12, 15
	ntIPInDiscards, ntIPOutDiscards, ntIPNoRoute, ntIPReassembly, ntWords = 7, 11, 12, 16, 23
	ntIPFragment                                                          = 18
)

// decodeNTUDP reads MIB_UDPSTATS of one family; six says that it is IPv6.
func decodeNTUDP(b []byte, six bool, v *values) error {
	if err := atLeast(b, 4*ntUDPWords, "UDP statistics"); err != nil {
		return err
	}
	to := []id{udpIn, udpNoPort, udpInErrors, udpOut}
	if six {
		to = []id{udp6In, udp6NoPort, udp6InErrors, udp6Out}
	}
	for i, word := range []int{ntUDPIn, ntUDPNoPort, ntUDPInErrors, ntUDPOut} {
		v.setNarrow(to[i], word32(b, word))
	}
	return nil
}

// decodeNTTCP adds MIB_TCPSTATS of one family to v.
func decodeNTTCP(b []byte, v *values) error {
	if err := atLeast(b, 4*ntTCPWords, "TCP statistics"); err != nil {
		return err
	}
	v.raiseNarrow(tcpIn, word32(b, ntTCPIn))
	v.raiseNarrow(tcpOut, word32(b, ntTCPOut))
	v.raiseNarrow(tcpRetransmitted, word32(b, ntTCPRetransmitted))
	v.raiseNarrow(tcpInErrors, word32(b, ntTCPInErrors))
	return nil
}

// decodeNTIP reads MIB_IPSTATS of one family; six says that it is IPv6.
func decodeNTIP(b []byte, six bool, v *values) error {
	if err := atLeast(b, 4*ntWords, "IP statistics"); err != nil {
		return err
	}
	to := []id{ipInDiscards, ipOutDiscards, ipNoRoute, ipReassembly, ipFragment}
	if six {
		to = []id{ip6InDiscards, ip6OutDiscards, ip6NoRoute, ip6Reassembly, ip6Fragment}
	}
	for i, word := range []int{ntIPInDiscards, ntIPOutDiscards, ntIPNoRoute, ntIPReassembly, ntIPFragment} {
		v.setNarrow(to[i], word32(b, word))
	}
	return nil
}
