package watch

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
