package datagram

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// space is a network namespace, entered by a thread that runs what it is given.
type space struct {
	work chan func()
	fd   int
}

// newSpace makes a namespace, or skips the test where that is not allowed.
func newSpace(t testing.TB) *space {
	t.Helper()
	s := &space{work: make(chan func())}
	made := make(chan error)
	go func() {
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
		if errors.Is(err, os.ErrPermission) {
			t.Skip("needs the right to make a network namespace")
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

// assign gives the interface an address and brings it up.
func assign(name, cidr string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	a, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l))
}

// awaitLink returns when the interface carries traffic.
func awaitLink() error {
	for limit := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		l, err := netlink.LinkByName("v0")
		if err != nil || l.Attrs().OperState == netlink.OperUp {
			return err
		}
		if time.Now().After(limit) {
			return errors.New("v0 does not come up")
		}
	}
}

// veth returns two namespaces joined by a pair of interfaces.
func veth(t testing.TB) (near, far *space) {
	near, far = newSpace(t), newSpace(t)
	err := near.do(func() error {
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "v0", MTU: 1500},
			PeerName:  "v0", PeerMTU: 1500, PeerNamespace: netlink.NsFd(far.fd),
		}
		return errors.Join(netlink.LinkAdd(pair), assign("v0", "10.78.0.1/24"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := far.do(func() error { return assign("v0", "10.78.0.2/24") }); err != nil {
		t.Fatal(err)
	}
	// The kernel takes up to a second to notice that the other end is up, and
	// throws everything away until then (net/core/link_watch.c).
	for _, s := range []*space{near, far} {
		if err := s.do(awaitLink); err != nil {
			t.Fatal(err)
		}
	}
	return near, far
}
