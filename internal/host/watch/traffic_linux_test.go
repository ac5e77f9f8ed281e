package watch

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// watching opens a watcher and closes it at the end of the test.
func watching(t testing.TB, device string) *Watcher {
	t.Helper()
	w := must.Get(Open(device))(t)
	t.Cleanup(func() {
		must.OK(t, w.Close())
	})
	return w
}

func reading(t testing.TB, w *Watcher) Snapshot {
	t.Helper()
	return must.Get(w.Read(time.Now()))(t)
}

// up sets an interface up.
func up(t *testing.T, name string) netlink.Link {
	t.Helper()
	l := must.Get(netlink.LinkByName(name))(t)
	must.Do(t, netlink.LinkSetUp(l))
	return l
}

// send sends n datagrams of size bytes to a without blocking and returns how many the kernel
// accepted.
func send(t *testing.T, a netip.AddrPort, n, size int) int {
	t.Helper()
	c := must.Get(net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(a)))(t)
	defer c.Close()
	taken := 0
	for range n {
		if _, err := c.Write(make([]byte, size)); err == nil {
			taken++
		} else if !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
	}
	return taken
}

// loss diagnoses a run whose receiver lost the given number of datagrams.
func loss(t *testing.T, lost int64, from, to []model.Counter) []model.Finding {
	t.Helper()
	l, ok := diagnose.LocateUDP(model.Run{Ends: []model.EndReport{
		{Host: model.Near, Counters: from, Flows: []model.FlowReport{{Direction: model.To, Role: model.Sender, UDP: &model.UDPSummary{}}}},
		{Host: model.Far, Counters: to, Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, UDP: &model.UDPSummary{Lost: lost}}}},
	}}, model.To)
	must.Need(t, ok, "not located")
	return l.Findings()
}

// TestSlowReceiver: datagrams dropped at a socket that is never read are counted exactly, and
// the diagnosis finds them.
func TestSlowReceiver(t *testing.T) { knobtest.InNamespace(t, testSlowReceiver) }

func testSlowReceiver(t *testing.T) {
	up(t, "lo")
	for _, c := range []struct {
		address, of string
	}{{"127.0.0.1:0", ""}, {"[::1]:0", ipv6}} {
		r, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(c.address)))
		if err != nil {
			t.Logf("%s: %v", c.address, err)
			continue
		}
		must.Do(t, r.SetReadBuffer(20000))
		w := watching(t, "lo")
		before := reading(t, w)
		const n = 500
		taken := send(t, r.LocalAddr().(*net.UDPAddr).AddrPort(), n, 1000)
		must.Need(t, taken == n, "%d of %d sent", taken, n)
		after := reading(t, w)
		kept := drain(t, r)
		moved := Delta(before, after)
		if got := find(moved, "udp_receive_buffer_errors", c.of); got != int64(n-kept) || kept == 0 || kept == n {
			t.Errorf("%s: %d dropped at the socket, and %d of %d were kept", c.address, got, kept, n)
		}
		must.Equal(t, find(moved, "udp_out_datagrams", c.of), n, "%s", c.address)
		got := find(moved, "nic_rx_packets", "lo")
		must.True(t, got >= n, "%s: lo received %d packets, want at least %d", c.address, got, n)
		f := loss(t, int64(n-kept), moved, moved)
		must.True(t, len(f) == 1 && f[0].Limit == "socket buffer" && f[0].Host == model.Far, "%s: %+v", c.address, f)
	}
}

// TestTrainsCountOnce checks the diagnosis of joined datagrams against the kernel: a train
// that a socket drops is one drop.
func TestTrainsCountOnce(t *testing.T) { knobtest.InNamespace(t, testTrainsCountOnce) }

func testTrainsCountOnce(t *testing.T) {
	up(t, "lo")
	const trains, each, size = 40, 40, 1000
	for _, joined := range []bool{false, true} {
		r := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
		s := must.Get(net.DialUDP("udp", nil, r.LocalAddr().(*net.UDPAddr)))(t)
		err := errors.Join(r.SetReadBuffer(200000), option(s, unix.UDP_SEGMENT, size))
		must.SkipIf(t, err != nil, "this kernel has no trains: %v", err)
		if joined {
			err := option(r, unix.UDP_GRO, 1)
			must.SkipIf(t, err != nil, "this kernel joins nothing: %v", err)
		}
		w := watching(t, "lo")
		before := reading(t, w)
		for range trains {
			must.Get(s.Write(make([]byte, each*size)))(t)
		}
		moved := Delta(before, reading(t, w))
		kept := drain(t, r) // datagrams or trains
		want := int64(trains*each - kept)
		if joined {
			want = int64(trains - kept)
		}
		got := find(moved, "udp_receive_buffer_errors", "")
		must.True(t, got == want && got != 0, "joined %v: %d drops counted, want %d", joined, got, want)
		got = find(moved, "udp_out_datagrams", "")
		must.True(t, got == trains, "joined %v: %d sent, want %d trains", joined, got, trains)
		must.Do(t, s.Close())
	}
}

// option sets a UDP socket option.
func option(c *net.UDPConn, name, value int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), unix.SOL_UDP, name, value) }); err != nil {
		return err
	}
	return inner
}

// drain reads all queued datagrams and returns how many there were.
func drain(t *testing.T, r *net.UDPConn) int {
	t.Helper()
	raw := must.Get(r.SyscallConn())(t)
	kept := 0
	must.Do(t, raw.Control(func(fd uintptr) {
		buf := make([]byte, 1<<16)
		for {
			if _, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT); err != nil {
				return
			}
			kept++
		}
	}))
	must.Do(t, r.Close())
	return kept
}

// wire makes a veth pair whose near end has 192.0.2.1 and a fixed neighbour 192.0.2.2, and no
// other traffic.
func wire(t *testing.T) netlink.Link {
	t.Helper()
	must.Do(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wa", MTU: 1500, TxQLen: 1000}, PeerName: "wb"}))
	for _, name := range []string{"wa", "wb"} {
		// No neighbour discovery in the counts. Without IPv6 there is none.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Log(err)
		}
	}
	up(t, "wb")
	near := up(t, "wa")
	must.Do(t, netlink.AddrAdd(near, must.Get(netlink.ParseAddr("192.0.2.1/24"))(t)))
	must.Do(t, netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: near.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IPv4(192, 0, 2, 2), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 2},
	}))
	return near
}

// TestFullQueue: drops of the queueing discipline are counted exactly. The IP layer counts
// the same packets again; the diagnosis counts them once.
func TestFullQueue(t *testing.T) { knobtest.InNamespace(t, testFullQueue) }

func testFullQueue(t *testing.T) {
	near := wire(t)
	const tick = 64 * time.Nanosecond // of the kernel's packet scheduler (include/net/pkt_sched.h PSCHED_SHIFT)
	bucket := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: near.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       1000, Limit: 6000, // bytes: one second per datagram, and a few may wait
		Buffer: 3 * uint32(time.Second/tick),
	}
	if err := netlink.QdiscAdd(bucket); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this kernel has no tbf: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	w := watching(t, "wa")
	before := reading(t, w)
	const n, size, frame = 100, 958, 1000
	send(t, netip.MustParseAddrPort("192.0.2.2:9"), n, size)
	after := reading(t, w)
	moved := Delta(before, after)
	dropped, sent := find(moved, "qdisc_dropped", "wa"), find(moved, "nic_tx_packets", "wa")
	waiting := int64(after.qdisc.backlog) / frame
	must.True(t, dropped+sent+waiting == n && dropped >= n/2 && waiting != 0, "of %d, %d were dropped, %d sent, %d wait", n, dropped, sent, waiting)
	must.Equal(t, find(moved, "ip_out_discards", ""), dropped, "the IP layer counts")
	f := loss(t, dropped, moved, nil)
	must.True(t, len(f) == 1 && f[0].Limit == "sender's queue" && f[0].Share.Or(0) == 1, "%+v", f)
	v, ok := sample(Samples(model.Near, before, after, 0, time.Second), qdiscBacklog, "wa")
	must.True(t, ok && v == float64(after.qdisc.backlog), "backlog %v, %v", v, ok)
	// A replacement begins at 0.
	must.Do(t, netlink.QdiscReplace(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: near.Attrs().Index, Handle: netlink.MakeHandle(2, 0), Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo",
	}))
	moved = Delta(before, reading(t, w))
	must.True(t, find(moved, "qdisc_dropped", "wa") == 0 && find(moved, countersRead, "qdisc") == 0, "two disciplines were compared: %+v", moved)
}

// TestCarrierDown: a loss of the link is counted, however short.
func TestCarrierDown(t *testing.T) { knobtest.InNamespace(t, testCarrierDown) }

func testCarrierDown(t *testing.T) {
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "here"}, PeerName: "there"}
	err := netlink.LinkAdd(pair)
	must.SkipIf(t, err != nil, "%v", err)
	up(t, "here")
	up(t, "there")
	w := watching(t, "here")
	before := reading(t, w)
	must.Equal(t, find(Delta(before, reading(t, w)), "nic_carrier_down", "here"), 0, "times although nothing happened")
	there := must.Get(netlink.LinkByName("there"))(t)
	for range 2 {
		must.Do(t, netlink.LinkSetDown(there))
		must.Do(t, netlink.LinkSetUp(there))
	}
	must.Equal(t, find(Delta(before, reading(t, w)), "nic_carrier_down", "here"), 2, "counted of 2")
}
