package counters

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/model"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// TestInterfaceGone: a new interface with the old name is a different interface.
func TestInterfaceGone(t *testing.T) { knobtest.InNamespace(t, testInterfaceGone) }

func testInterfaceGone(t *testing.T) {
	near := wire(t)
	w := watching(t, "wa")
	before := reading(t, w)
	must.Need(t, find(Delta(before, reading(t, w)), countersRead, "nic") != 0, "the interface cannot be read")
	must.Do(t, netlink.LinkDel(near))
	wire(t)
	moved := Delta(before, reading(t, w))
	must.True(t, find(moved, countersRead, "nic") == 0, "two interfaces were compared: %+v", moved)
	missing := w.Missing()
	must.True(t, slices.ContainsFunc(missing, func(s string) bool { return strings.HasPrefix(s, "interface wa: ") }), "missing: %q", missing)
}

// TestNamespaceOfOpen: a watcher reads the namespace where it was opened, from any thread.
func TestNamespaceOfOpen(t *testing.T) { knobtest.InNamespace(t, testNamespaceOfOpen) }

func testNamespaceOfOpen(t *testing.T) {
	up(t, "lo")
	outer := watching(t, "lo")
	before := reading(t, outer)
	inner, begin, done := make(chan *Watcher), make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		w, receiver, err := elsewhere()
		inner <- w
		if err == nil {
			<-begin
			_, err = receiver.WriteToUDPAddrPort(make([]byte, 10), receiver.LocalAddr().(*net.UDPAddr).AddrPort())
			err = errors.Join(err, receiver.Close())
		}
		done <- err
	}()
	w := <-inner
	if w == nil {
		t.Fatal(<-done)
	}
	defer w.Close()
	first := reading(t, w)
	close(begin)
	must.Do(t, <-done)
	must.Equal(t, find(Delta(first, reading(t, w)), "udp_out_datagrams", ""), 1, "datagrams in the namespace of the watcher")
	must.Equal(t, find(Delta(before, reading(t, outer)), "udp_out_datagrams", ""), 0, "datagrams of another namespace are counted")
}

// elsewhere moves the calling thread into a new network namespace and opens a watcher and a
// socket there.
func elsewhere() (*Watcher, *net.UDPConn, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, nil, err
	}
	l, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, nil, err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return nil, nil, err
	}
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		return nil, nil, err
	}
	w, err := Open("lo")
	return w, c, err
}

// TestBusyCore: a thread spinning on one core shows up on that core.
func TestBusyCore(t *testing.T) {
	w := watching(t, "")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(0, &all))
	chosen := 0
	for !all.IsSet(chosen) {
		chosen++
	}
	one.Set(chosen)
	err := unix.SchedSetaffinity(0, &one)
	must.SkipIf(t, err != nil, "this system does not bind threads here: %v", err)
	defer func() { must.OK(t, unix.SchedSetaffinity(0, &all)) }()
	before := reading(t, w)
	used := spin(t, 400*time.Millisecond)
	moved := Delta(before, reading(t, w))
	// Allow for ticks of 10 ms and time that a hypervisor took.
	if got := time.Duration(find(moved, cpuBusyTime, cpuName(chosen))) * time.Millisecond; got < used*8/10 {
		t.Errorf("%s was busy for %v, its thread for %v: %+v", cpuName(chosen), got, used, moved)
	}
	got := time.Duration(find(moved, cpuBusyTime, "")) * time.Millisecond
	must.True(t, got >= used*8/10, "all cores were busy for %v, one thread for %v", got, used)
}

// spin uses about d of processor time and returns the time used.
func spin(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	now := func() time.Duration {
		var u unix.Rusage
		must.Do(t, unix.Getrusage(unix.RUSAGE_THREAD, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := now()
	for now()-start < d {
		for range 10000 {
			runtime.KeepAlive(d)
		}
	}
	return now() - start
}

// TestDriverOfVeth compares names and values with ethtool's.
func TestDriverOfVeth(t *testing.T) {
	referee.Program(t, "ethtool")
	knobtest.InNamespace(t, func(t *testing.T) {
		wire(t)
		w := watching(t, "wa")
		s := reading(t, w)
		must.Need(t, len(s.driver.names) != 0 && len(s.driver.values) == len(s.driver.names), "%+v; missing %q", s.driver, w.Missing())
		out := must.Get(exec.CommandContext(t.Context(), "ethtool", "-S", "wa").Output())(t)
		for i, name := range s.driver.names {
			must.True(t, bytes.Contains(out, []byte(name+": ")), "%q = %d is not among\n%s", name, s.driver.values[i], out)
		}
	})
}

// TestMissing: the watcher reports what it cannot read, and reads the rest.
func TestMissing(t *testing.T) {
	w := watching(t, "nonexistent0")
	missing := w.Missing()
	must.True(t, len(missing) != 0 && slices.ContainsFunc(missing, func(s string) bool { return strings.HasPrefix(s, "interface nonexistent0: ") }), "%q", missing)
	s := reading(t, w)
	must.True(t, len(s.cores) != 0 && len(s.queues) != 0 && s.values[udpIn].known && !s.values[nicRxPackets].known, "%+v", s)
	must.Do(t, w.Close())
	must.Is(t, must.Err(w.Read(time.Now())), os.ErrClosed, "after Close")
	must.True(t, w.Missing() == nil, "a closed watcher misses something")
}

// mostTracked limits the table that the test fills: 256 bytes per entry, freed with the
// namespace.
const mostTracked = 300_000

// tracked enables connection tracking in the namespace and returns the table's capacity.
func tracked(t *testing.T) int {
	t.Helper()
	nft, err := exec.LookPath("nft")
	must.SkipIf(t, err != nil, "%v", err)
	rules := exec.CommandContext(t.Context(), nft, "-f", "-")
	rules.Stdin = strings.NewReader("table inet t {\nchain out {\ntype filter hook output priority 0;\nct state invalid counter;\n}\n}\n")
	if out, err := rules.CombinedOutput(); err != nil {
		t.Skipf("nft: %v: %s", err, out)
	}
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	must.SkipIf(t, err != nil, "%v", err)
	most, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must.SkipIf(t, err != nil || most > mostTracked, "a table of %q entries is too large to be filled", b)
	return most
}

// TestTableFull fills the kernel's connection tracking table with datagrams to many
// addresses, each a connection of its own. A full table evicts connections without a reply,
// and drops packets for which it finds no room.
func TestTableFull(t *testing.T) { knobtest.InNamespace(t, testTableFull) }

func testTableFull(t *testing.T) {
	up(t, "lo")
	most := tracked(t)
	w := watching(t, "lo")
	before := reading(t, w)
	c := must.Get(net.ListenUDP("udp4", nil))(t)
	defer c.Close()
	port := uint16(c.LocalAddr().(*net.UDPAddr).Port) // the test never reads it, and no errors come back
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			a := netip.AddrFrom4([4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)})
			_, err := c.WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(a, port))
			must.Need(t, err == nil || errors.Is(err, unix.EPERM), "%v", err)
		}
	}
	fill(0, 1000)
	half := reading(t, w)
	if moved := Delta(before, half); find(moved, "track_dropped", "")+find(moved, "track_evicted", "") != 0 || find(moved, countersRead, "track") != 2 {
		t.Errorf("the table is nearly empty: %+v", moved)
	}
	fill(1000, most+2000)
	moved := Delta(half, reading(t, w))
	n := find(moved, "track_dropped", "") + find(moved, "track_evicted", "")
	must.True(t, n >= 500, "%d dropped or evicted of 2000 beyond the table: %+v", n, moved)
}

// TestMarks sends datagrams with and without ECN marks.
func TestMarks(t *testing.T) { knobtest.InNamespace(t, testMarks) }

func testMarks(t *testing.T) {
	up(t, "lo")
	r := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
	defer r.Close()
	w := watching(t, "lo")
	for mark, name := range map[int]string{0: "ecn_unmarked", 2: "ecn_capable", 3: "ecn_congested"} {
		before := reading(t, w)
		c := must.Get(net.DialUDP("udp", nil, r.LocalAddr().(*net.UDPAddr)))(t)
		raw, err := c.SyscallConn()
		must.Do(t, err)
		must.Do(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, mark) }))
		must.Do(t, err)
		for range 20 {
			must.Get(c.Write([]byte("x")))(t)
		}
		moved := Delta(before, reading(t, w))
		for _, other := range []string{"ecn_unmarked", "ecn_capable", "ecn_congested"} {
			want := int64(0)
			if other == name {
				want = 20
			}
			must.Equal(t, find(moved, other, ""), want, "mark %d: %s moved by", mark, other)
		}
		must.OK(t, c.Close())
	}
}

// watching opens a watcher and closes it at the end of the test.
func watching(t testing.TB, device string) *Watcher {
	t.Helper()
	w := must.Get(Open(device))(t)
	t.Cleanup(func() { must.OK(t, w.Close()) })
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
