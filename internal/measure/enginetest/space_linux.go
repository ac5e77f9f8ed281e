package enginetest

import (
	"errors"
	"io/fs"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/units"
)

// space is a network namespace with a thread in it that runs functions.
type space struct {
	work chan func()
	fd   int // of the namespace
}

// newSpace creates a namespace, or skips the test if that is not permitted.
func newSpace(t testing.TB) *space {
	t.Helper()
	s := &space{work: make(chan func())}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so that no other goroutine runs
		// in the namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			s.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		made <- err
		for f := range s.work {
			f()
		}
	}()
	t.Cleanup(func() { close(s.work) })
	if err := <-made; err != nil {
		if errors.Is(err, fs.ErrPermission) {
			t.Skip("needs the right to make a network namespace (root)")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(s.fd) })
	return s
}

// do runs f in the namespace and waits.
func (s *space) do(f func() error) error {
	done := make(chan error)
	s.work <- func() { done <- f() }
	return <-done
}

// Device is the name of each end of a veth pair.
const Device = "v0"

const (
	nearHost = "10.78.0.1"
	farHost  = "10.78.0.2"
)

// NewVeth returns a wire whose ends are in network namespaces of their own, joined by a veth
// pair with an MTU of 1500 bytes. A bucket limits what leaves each end; a zero one does not. It
// skips the test if the system does not permit that.
func NewVeth(t testing.TB, b Bucket) *Wire {
	t.Helper()
	near, far := newSpace(t), newSpace(t)
	err := near.do(func() error {
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: Device, MTU: 1500},
			PeerName:  Device, PeerMTU: 1500, PeerNamespace: netlink.NsFd(far.fd),
		}
		return errors.Join(netlink.LinkAdd(pair), address(nearHost))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := far.do(func() error { return address(farHost) }); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*space{near, far} {
		s.awaitLink(t)
		if b != (Bucket{}) {
			s.shape(t, b)
		}
	}
	return newWire(t, farHost, near.do, far.do)
}

// address gives the interface the address host and brings it up.
func address(host string) error {
	l, err := netlink.LinkByName(Device)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(host + "/24")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l))
}

// awaitLink waits until the interface carries traffic. The kernel takes up to a second to
// notice that the other end is up, and drops everything until then (net/core/link_watch.c).
func (s *space) awaitLink(t testing.TB) {
	t.Helper()
	poll, limit := time.NewTicker(5*time.Millisecond), time.NewTimer(Soon)
	defer poll.Stop()
	defer limit.Stop()
	for {
		var state netlink.LinkOperState
		err := s.do(func() error {
			l, err := netlink.LinkByName(Device)
			if err == nil {
				state = l.Attrs().OperState
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if state == netlink.OperUp {
			return
		}
		select {
		case <-poll.C:
		case <-limit.C:
			t.Fatalf("%s is %s after %v", Device, state, Soon)
		}
	}
}

// Bucket limits what leaves each end of a veth pair, by the kernel's token bucket
// filter: an ideal link of a rate with a queue before it (tc-tbf(8)).
type Bucket struct {
	Rate  units.BitRate // of frames including their 14-byte header
	Burst units.Bytes   // that may leave at once
	Queue units.Bytes   // that may wait
}

// shape installs the bucket on the interface.
func (s *space) shape(t testing.TB, b Bucket) {
	t.Helper()
	const tick = 64e-9 // seconds, of the kernel's packet scheduler (include/net/pkt_sched.h PSCHED_SHIFT)
	err := s.do(func() error {
		l, err := netlink.LinkByName(Device)
		if err != nil {
			return err
		}
		return netlink.QdiscReplace(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       uint64(b.Rate / 8),
			Limit:      uint32(b.Queue),
			Buffer:     uint32(float64(b.Burst) * 8 / float64(b.Rate) / tick),
		})
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("this kernel has no token bucket filter (sch_tbf): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
