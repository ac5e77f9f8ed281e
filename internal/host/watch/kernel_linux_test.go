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
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// TestInterfaceGone: a new interface under the old name is not the old one.
func TestInterfaceGone(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
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

// TestNamespaceOfOpen: a watcher counts where it was opened, whoever reads it.
func TestNamespaceOfOpen(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	up(t, "lo")
	outer := watching(t, "lo")
	before := reading(t, outer)
	inner, begin, done := make(chan *Watcher), make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
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

// elsewhere moves the calling thread into a new network namespace and opens a
// watcher and a socket there.
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

// TestBusyCore: a thread that spins on one core shows there.
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
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Skipf("this system does not bind threads here: %v", err)
	}
	defer func() {
		must.OK(t, unix.SchedSetaffinity(0, &all))
	}()
	before := reading(t, w)
	used := spin(t, 400*time.Millisecond)
	moved := Delta(before, reading(t, w))
	// Ticks of 10 ms, and time that a hypervisor took.
	if got := time.Duration(find(moved, cpuBusyTime, cpuName(chosen))) * time.Millisecond; got < used*8/10 {
		t.Errorf("%s was busy for %v, its thread for %v: %+v", cpuName(chosen), got, used, moved)
	}
	got := time.Duration(find(moved, cpuBusyTime, "")) * time.Millisecond
	must.True(t, got >= used*8/10, "all cores were busy for %v, one thread for %v", got, used)
}

// spin uses so much time of a core and returns how much it was.
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

// TestDriverOfVeth holds the names and values against ethtool's.
func TestDriverOfVeth(t *testing.T) {
	if _, err := exec.LookPath("ethtool"); err != nil {
		t.Skip("ethtool is not installed")
	}
	if !knobtest.InNamespace(t) {
		return
	}
	wire(t)
	w := watching(t, "wa")
	s := reading(t, w)
	must.Need(t, len(s.driver.names) != 0 && len(s.driver.values) == len(s.driver.names), "%+v; missing %q", s.driver, w.Missing())
	out := must.Get(exec.CommandContext(t.Context(), "ethtool", "-S", "wa").Output())(t)
	for i, name := range s.driver.names {
		must.True(t, bytes.Contains(out, []byte(name+": ")), "%q = %d is not among\n%s", name, s.driver.values[i], out)
	}
}

// TestMissing: what there is not is said, and the rest is read.
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
