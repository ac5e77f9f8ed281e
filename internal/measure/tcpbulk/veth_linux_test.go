package tcpbulk

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

// space is a network namespace, entered by a thread that runs what it is given.
type space struct {
	work chan func()
	fd   int // of the namespace
}

// newSpace makes a namespace, or skips the test where that is not allowed.
func newSpace(t *testing.T) *space {
	t.Helper()
	s := &space{work: make(chan func())}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and nobody else
		// finds itself in the namespace.
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

// address gives the interface an address and brings it up.
func address(name, cidr string) error {
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

// newVeth returns a wire whose ends are in namespaces of their own, joined by
// a veth pair with an MTU of 1500 bytes.
func newVeth(t *testing.T) *wire {
	t.Helper()
	near, far := newSpace(t), newSpace(t)
	err := near.do(func() error {
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "v0", MTU: 1500},
			PeerName:  "v0", PeerMTU: 1500, PeerNamespace: netlink.NsFd(far.fd),
		}
		return errors.Join(netlink.LinkAdd(pair), address("v0", "10.78.0.1/24"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var w *wire
	err = far.do(func() error {
		if err := address("v0", "10.78.0.2/24"); err != nil {
			return err
		}
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "10.78.0.2:0")
		w = &wire{listener: l}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.listener.Close() })
	w.dialer = func(ctx context.Context, o engine.SocketOptions) (c *net.TCPConn, err error) {
		err = near.do(func() (err error) { c, err = w.dial(ctx, o); return err })
		return c, err
	}
	return w
}

// TestVeth checks what the sender's kernel says against what is known of the
// path and was asked for.
func TestVeth(t *testing.T) {
	f := timed(model.To, 2)
	f.MSS, f.Window, f.Congestion = 1000, 64<<10, "reno"
	near, far := prepare(t, New(), newVeth(t), f)
	conduct(t, near, far)
	s := near.flow(t, model.To).TCP
	if got := s.PathMTU.Or(0); got != 1500 {
		t.Errorf("path MTU %d, want 1500", got)
	}
	// 12 bytes of each segment are the timestamps option (RFC 7323 section 3.2).
	if got, timestamps := s.MSS.Or(0), s.Timestamps.Or(false); got != 988 && timestamps || got != 1000 && !timestamps {
		t.Errorf("segments of %d bytes with timestamps %t, 1000 asked", got, timestamps)
	}
	if got := s.Congestion.Or(""); got != "reno" {
		t.Errorf("congestion control %q, want reno", got)
	}
	if got := s.PeerWindow.Or(0); got == 0 || got > 2*2*f.Window {
		t.Errorf("the peers announce %d bytes with buffers of %d each", got, f.Window)
	}
	if got, want := s.SendBuffer.Or(0), units.Bytes(2*2*f.Window); got != want {
		t.Errorf("send buffers of %d bytes, want %d", got, want)
	}
	if got := s.RTTMin.Or(0); got <= 0 {
		t.Errorf("least round trip %v", got)
	}
	if got, sent := far.flow(t, model.To).Bytes, near.flow(t, model.To).Bytes; got == 0 || got > sent {
		t.Errorf("received %d of %d bytes", got, sent)
	}
}
