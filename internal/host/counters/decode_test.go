package counters

import (
	"encoding/binary"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/must"
)

// words64 returns n words of which word i is 1000 + i.
func words64(n int) []byte {
	b := make([]byte, 8*n)
	for i := range n {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(1000+i))
	}
	return b
}

// words32 returns n words of which word i is 1000 + i.
func words32(n int) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(1000+i))
	}
	return b
}

// TestDecodeStructs checks the decoders against the systems' structures: the order of the
// fields, by their names in the headers.
func TestDecodeStructs(t *testing.T) {
	freebsdUDP := []string{"ipackets", "hdrops", "badsum", "nosum", "badlen", "noport", "noportbcast", "fullsock", "pcbcachemiss", "pcbhashmiss", "opackets", "fastout", "noportmcast", "filtermcast"}
	darwinUDP := []string{"ipackets", "hdrops", "badsum", "badlen", "noport", "noportbcast", "fullsock", "pcbcachemiss", "pcbhashmiss", "opackets", "fastout", "nosum"}
	freebsdTCP := []string{
		"connattempt", "accepts", "connects", "drops", "conndrops", "minmssdrops", "closed", "segstimed", "rttupdated", "delack", "timeoutdrop",
		"rexmttimeo", "persisttimeo", "keeptimeo", "keepprobe", "keepdrops", "progdrops", "sndtotal", "sndpack", "sndbyte", "sndrexmitpack", "sndrexmitbyte",
		"sndrexmitbad", "sndacks", "sndprobe", "sndurg", "sndwinup", "sndctrl", "rcvtotal", "rcvpack", "rcvbyte", "rcvbadsum", "rcvbadoff", "rcvreassfull",
		"rcvshort", "rcvduppack", "rcvdupbyte", "rcvpartduppack", "rcvpartdupbyte", "rcvoopack", "rcvoobyte",
	}
	darwinTCP := []string{
		"connattempt", "accepts", "connects", "drops", "conndrops", "closed", "segstimed", "rttupdated", "delack", "timeoutdrop",
		"rexmttimeo", "persisttimeo", "keeptimeo", "keepprobe", "keepdrops", "sndtotal", "sndpack", "sndbyte", "sndrexmitpack", "sndrexmitbyte",
	}
	freebsdIP := []string{
		"total", "badsum", "tooshort", "toosmall", "badhlen", "badlen", "fragments", "fragdropped", "fragtimeout", "forward", "fastforward", "cantforward",
		"redirectsent", "noproto", "delivered", "localout", "odropped", "reassembled", "fragmented", "ofragments", "cantfrag", "badoptions", "noroute",
	}
	ntUDP := []string{"InDatagrams", "NoPorts", "InErrors", "OutDatagrams", "NumAddrs"}
	ntTCP := []string{"RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets", "CurrEstab", "InSegs", "OutSegs", "RetransSegs", "InErrs", "OutRsts", "NumConns"}
	ntIP := []string{
		"Forwarding", "DefaultTTL", "InReceives", "InHdrErrors", "InAddrErrors", "ForwDatagrams", "InUnknownProtos", "InDiscards", "InDelivers", "OutRequests",
		"RoutingDiscards", "OutDiscards", "OutNoRoutes", "ReasmTimeout", "ReasmReqds", "ReasmOks", "ReasmFails", "FragOks", "FragFails", "FragCreates", "NumIf", "NumAddr", "NumRoutes",
	}
	udp6, _, _ := ntLayouts(true)
	_, tcp, ip := ntLayouts(false)
	for _, c := range []struct {
		name   string
		fields []string
		layout layout
		want   map[id]string
	}{
		{"FreeBSD UDP", freebsdUDP, freebsdLayouts()[0], map[id]string{udpIn: "ipackets", udpChecksum: "badsum", udpNoPort: "noport", udpReceiveBuffer: "fullsock", udpOut: "opackets"}},
		{"macOS UDP", darwinUDP, darwinLayouts()[0], map[id]string{udpIn: "ipackets", udpChecksum: "badsum", udpNoPort: "noport", udpReceiveBuffer: "fullsock", udpOut: "opackets"}},
		{"FreeBSD TCP", freebsdTCP, freebsdLayouts()[1], map[id]string{tcpTimeouts: "rexmttimeo", tcpRetransmitted: "sndrexmitpack", tcpIn: "rcvtotal", tcpInErrors: "rcvbadsum", tcpOutOfOrder: "rcvoopack"}},
		{"macOS TCP", darwinTCP, darwinLayouts()[1], map[id]string{tcpTimeouts: "rexmttimeo", tcpRetransmitted: "sndrexmitpack"}},
		{"FreeBSD IP", freebsdIP, freebsdLayouts()[2], map[id]string{ipReassembly: "fragtimeout", ipOutDiscards: "odropped", ipFragment: "cantfrag", ipNoRoute: "noroute"}},
		{"Windows UDP", ntUDP, udp6, map[id]string{udp6In: "InDatagrams", udp6NoPort: "NoPorts", udp6InErrors: "InErrors", udp6Out: "OutDatagrams"}},
		{"Windows TCP", ntTCP, tcp, map[id]string{tcpIn: "InSegs", tcpOut: "OutSegs", tcpRetransmitted: "RetransSegs", tcpInErrors: "InErrs"}},
		{"Windows IP", ntIP, ip, map[id]string{ipInDiscards: "InDiscards", ipOutDiscards: "OutDiscards", ipNoRoute: "OutNoRoutes", ipReassembly: "ReasmFails", ipFragment: "FragFails"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := words32(len(c.fields))
			if c.layout.wide {
				b = words64(len(c.fields))
			}
			var v values
			must.Do(t, c.layout.decode(b, &v))
			for i, field := range c.want {
				want := uint64(1000 + slices.Index(c.fields, field))
				must.True(t, v[i].n == want && v[i].known && v[i].narrow != c.layout.wide, "%s: %+v, want %d", field, v[i], want)
			}
			must.Is(t, c.layout.decode(b[:len(b)/3], new(values)), errShape, "a third of the structure")
		})
	}
}

// TestRepeatedSegments: FreeBSD and macOS count retransmitted segments as sent.
func TestRepeatedSegments(t *testing.T) {
	var v values
	b := make([]byte, 8*64)
	binary.LittleEndian.PutUint64(b[8*17:], 100)
	binary.LittleEndian.PutUint64(b[8*20:], 30)
	err := freebsdLayouts()[1].decode(b, &v)
	must.True(t, err == nil && v[tcpOut].n == 70 && v[tcpRetransmitted].n == 30, "%+v, %v", v[tcpOut], err)
	must.Is(t, darwinLayouts()[1].decode(make([]byte, 400), &v), errHidden, "zeros for those who are not root")
	// Windows: the sum of both families.
	v = values{}
	for range 2 {
		_, tcp, _ := ntLayouts(false)
		must.Do(t, tcp.decode(words32(15), &v))
	}
	must.True(t, v[tcpOut].n == 2*(1000+10), "%+v", v[tcpOut])
}

func TestDecodeCores(t *testing.T) {
	ticks := []uint64{100, 20, 30, 4, 1000, 200, 0, 0, 8, 9000} // user nice sys intr idle, for two cores
	b := make([]byte, 0, 80)
	for _, n := range ticks {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	clock := words32(5)
	binary.LittleEndian.PutUint32(clock[12:], 125)
	tick, err := decodeClockRate(clock)
	must.Need(t, err == nil && tick == 8*time.Millisecond, "%v %v", tick, err)
	cores, err := decodeFreeBSDCores(b, tick)
	must.True(t, err == nil && len(cores) == 2 && cores[0].busy() == 154*tick && cores[0].irq == 4*tick && cores[1].user == 200*tick, "%+v, %v", cores, err)
	must.Is(t, must.Err(decodeFreeBSDCores(b[:79], tick)), errShape)
	must.Is(t, must.Err(decodeClockRate(make([]byte, 20))), errShape)

	nt := make([]byte, 2*ntCore)
	for i, n := range []uint64{7e7, 9e7, 1e7, 5e6, 2e6} { // idle, kernel including all but user, user, DPC, interrupt
		binary.LittleEndian.PutUint64(nt[ntCore+8*i:], n)
	}
	cores, err = decodeNTCores(nt)
	want := core{id: 1, user: time.Second, system: 1300 * time.Millisecond, irq: 200 * time.Millisecond, softirq: 500 * time.Millisecond}
	must.True(t, err == nil && len(cores) == 2 && cores[1] == want && cores[1].busy() == 3*time.Second, "%+v, %v", cores, err)
	must.Is(t, must.Err(decodeNTCores(nt[:50])), errShape)
}

// routeList is a list of three messages; the second is the interface's.
func routeList(m routeMessage, index int) []byte {
	const size = 184
	var all []byte
	for _, one := range []struct{ kind, index int }{{0xc, index}, {m.kind, index + 1}, {m.kind, index}} {
		b := make([]byte, size)
		binary.LittleEndian.PutUint16(b, size)
		b[2], b[3] = 5, byte(one.kind)
		binary.LittleEndian.PutUint16(b[12:], uint16(one.index))
		for at := 16; at+8 <= size; at += 8 {
			binary.LittleEndian.PutUint64(b[at:], uint64(one.index*1000+at))
		}
		all = append(all, b...)
	}
	return all
}

func TestDecodeInterface(t *testing.T) {
	for name, c := range map[string]struct {
		m    routeMessage
		want map[id]uint64 // offsets in the message, from the header files
	}{
		"FreeBSD": {freebsdInterface(), map[id]uint64{nicRxPackets: 40, nicRxErrors: 48, nicTxPackets: 56, nicTxErrors: 64, nicCollisions: 72, nicRxBytes: 80, nicTxBytes: 88, nicRxDropped: 112, nicTxDropped: 120}},
		"macOS":   {darwinInterface(), map[id]uint64{nicRxPackets: 56, nicRxErrors: 64, nicTxPackets: 72, nicTxErrors: 80, nicCollisions: 88, nicRxBytes: 96, nicTxBytes: 104, nicRxDropped: 128}},
	} {
		var v values
		b := routeList(c.m, 3)
		must.Dof(t, c.m.decode(b, 3, &v), "%v", name)
		for i, at := range c.want {
			must.True(t, v[i].n == 3000+at, "%s: %s = %d, want %d", name, counters()[i].name, v[i].n, 3000+at)
		}
		must.Is(t, c.m.decode(b, 9, &v), errShape, "%s: an interface that is not there", name)
		b[0] = 255
		must.Is(t, c.m.decode(b[:200], 3, &v), errShape, "%s: a message longer than the list", name)
	}
}

// nlMessage is an rtnetlink message.
func nlMessage(kind uint16, payload []byte) []byte {
	b := header(kind, 0, len(payload))
	copy(b[nlHeader:], payload)
	return b
}

func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(len(value)+4))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func native64(n int) []byte {
	var b []byte
	for i := range n {
		b = binary.NativeEndian.AppendUint64(b, uint64(1000+i))
	}
	return b
}

// TestDecodeStats: kernels before 4.6 have 23 fields, later ones more.
func TestDecodeStats(t *testing.T) {
	names := []string{
		"rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "multicast", "collisions", "rx_length_errors",
		"rx_over_errors", "rx_crc_errors", "rx_frame_errors", "rx_fifo_errors", "rx_missed_errors", "tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors",
		"tx_heartbeat_errors", "tx_window_errors", "rx_compressed", "tx_compressed", "rx_nohandler", "rx_otherhost_dropped",
	}
	want := map[id]string{
		nicRxPackets: "rx_packets", nicTxPackets: "tx_packets", nicRxBytes: "rx_bytes", nicTxBytes: "tx_bytes", nicRxErrors: "rx_errors", nicTxErrors: "tx_errors",
		nicRxDropped: "rx_dropped", nicTxDropped: "tx_dropped", nicCollisions: "collisions", nicRxLength: "rx_length_errors", nicRxOver: "rx_over_errors",
		nicRxCRC: "rx_crc_errors", nicRxFrame: "rx_frame_errors", nicRxFIFO: "rx_fifo_errors", nicRxMissed: "rx_missed_errors", nicTxCarrier: "tx_carrier_errors",
		nicTxFIFO: "tx_fifo_errors", nicRxUnhandled: "rx_nohandler",
	}
	for _, n := range []int{23, 24, 25, 30} {
		var v values
		payload := append(make([]byte, statsHeader), attr(9, []byte{1})...)
		must.Dof(t, decodeStats(nlMessage(rtmNewStats, append(payload, attr(statsLink64, native64(n))...)), linkFields(), &v), "%v", n)
		for i, name := range want {
			at := slices.Index(names, name)
			known := at < n
			must.True(t, v[i].known == known && (!known || v[i].n == uint64(1000+at)), "%d fields: %s = %+v", n, name, v[i])
		}
	}
	for name, b := range map[string][]byte{
		"empty": nil, "header": make([]byte, 16), "other": nlMessage(16, make([]byte, 20)), "short": nlMessage(rtmNewStats, make([]byte, 4)),
		"no attribute": nlMessage(rtmNewStats, make([]byte, statsHeader)),
	} {
		must.Is(t, decodeStats(b, linkFields(), new(values)), errShape, "%s", name)
	}
	gone := binary.NativeEndian.AppendUint32(nil, uint32(0xffffffff-uint32(syscall.ENODEV)+1))
	must.Is(t, decodeStats(nlMessage(nlError, gone), linkFields(), new(values)), syscall.ENODEV, "an error of the kernel")
}

// qdiscMessage is one queueing discipline in a dump.
func qdiscMessage(index int, parent, handle uint32, kind string, numbers ...uint32) []byte {
	m := make([]byte, qdiscHeader)
	binary.NativeEndian.PutUint32(m[4:], uint32(index))
	binary.NativeEndian.PutUint32(m[8:], handle)
	binary.NativeEndian.PutUint32(m[12:], parent)
	var q []byte
	for _, n := range numbers {
		q = binary.NativeEndian.AppendUint32(q, n)
	}
	m = append(m, attr(tcaKind, append([]byte(kind), 0))...)
	m = append(m, attr(tcaStats2|0x8000, append(attr(1, make([]byte, 12)), attr(statsQueue, q)...))...)
	return nlMessage(rtmNewQdisc, m)
}

func TestDecodeQdiscs(t *testing.T) {
	dump := slices.Concat(
		qdiscMessage(2, qdiscRoot, 0x10000, "fq", 1, 1, 1, 1, 1),
		qdiscMessage(3, 0x80010001, 0x20000, "pfifo", 1, 2, 3, 4, 5), // below the root
		qdiscMessage(3, qdiscRoot, 0x80010000, "tbf", 2, 3000, 17, 6, 900),
	)
	var v values
	var q qdiscKind
	done, err := decodeQdiscs(dump, 3, &q, &v)
	must.Need(t, err == nil && !done, "%v %v", done, err)
	done, err = decodeQdiscs(nlMessage(nlDone, make([]byte, 4)), 3, &q, &v)
	must.Need(t, done && err == nil, "%v %v", done, err)
	must.True(t, v[qdiscDropped].n == 17 && v[qdiscRequeues].n == 6 && v[qdiscOverlimits].n == 900 && q.backlog == 3000 &&
		v[qdiscDropped].narrow, "%+v, %+v", v[qdiscDropped], q)
	must.True(t, strings.TrimRight(string(q.kind[:]), "\x00") == "tbf" && q.known && q.handle == 0x80010000, "%+v", q)
	q = qdiscKind{}
	_, err = decodeQdiscs(dump, 4, &q, &v)
	must.True(t, err == nil && !q.known, "an interface without one: %+v, %v", q, err)
	must.Is(t, must.Err(decodeQdiscs(dump[:len(dump)-1], 3, &q, &v)), errShape, "cut off")
}

func TestDriver(t *testing.T) {
	var b []byte
	for _, name := range []string{"rx_packets", "rx_no_buffer_count", "tx_bytes", "rx0_drops", "Rx Missed ", "rx_pause_ctrl_phy", "rx_out_of_buffer"} {
		b = append(b, name...)
		b = append(b, make([]byte, ethName-len(name))...)
	}
	indexes, names := pick(b, 7)
	must.True(t, slices.Equal(indexes, []int{1, 3, 4, 5, 6}) && slices.Equal(names, []string{"rx_no_buffer_count", "rx0_drops", "Rx Missed", "rx_pause_ctrl_phy", "rx_out_of_buffer"}), "%v %q", indexes, names)
	stats := make([]byte, ethStatsHead)
	binary.NativeEndian.PutUint32(stats[4:], 7)
	must.Same(t, must.Get(decodeDriver(append(stats, native64(7)...), 7, indexes))(t), []uint64{1001, 1003, 1004, 1005, 1006})
	must.Is(t, must.Err(decodeDriver(append(stats, native64(7)...), 8, indexes)), errShape, "a driver that has others now")
}

func FuzzDecodeNetlink(f *testing.F) {
	f.Add(nlMessage(rtmNewStats, append(make([]byte, statsHeader), attr(statsLink64, native64(25))...)), 3)
	f.Add(qdiscMessage(3, qdiscRoot, 1, "tbf", 1, 2, 3, 4, 5), 3)
	f.Add(nlMessage(nlDone, make([]byte, 4)), 0)
	fields := linkFields()
	f.Fuzz(func(t *testing.T, b []byte, index int) {
		var v values
		must.True(t, decodeStats(b, fields, &v) != nil || len(b) >= nlHeader+statsHeader+4, "statistics from too few bytes")
		_, _ = decodeQdiscs(b, index, new(qdiscKind), &v)
	})
}

func FuzzDecodeDriver(f *testing.F) {
	f.Add(make([]byte, 200), 2)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		indexes, names := pick(b, n)
		must.Equal(t, len(indexes), len(names), "%v %v", indexes, names)
		_, _ = decodeDriver(b, min(max(n, 0), mostStats), indexes)
	})
}

func FuzzDecodeStructs(f *testing.F) {
	f.Add(words64(64), 3)
	f.Add(routeList(freebsdInterface(), 3), 3)
	f.Add(routeList(darwinInterface(), 3), 3)
	bsd, mac := freebsdInterface(), darwinInterface()
	f.Fuzz(func(_ *testing.T, b []byte, index int) {
		var v values
		udp, tcp, ip := ntLayouts(true)
		for _, l := range slices.Concat(freebsdLayouts(), darwinLayouts(), []layout{udp, tcp, ip}) {
			_ = l.decode(b, &v)
		}
		_, _ = decodeFreeBSDCores(b, time.Millisecond)
		_, _ = decodeClockRate(b)
		_, _ = decodeNTCores(b)
		_ = bsd.decode(b, index, &v)
		_ = mac.decode(b, index, &v)
	})
}
