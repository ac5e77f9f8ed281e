package loaded

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
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

// shape limits what leaves the namespace through the interface.
func (s *space) shape(t *testing.T, name string, tbf ...string) {
	t.Helper()
	var out []byte
	err := s.do(func() (err error) {
		args := append([]string{"qdisc", "replace", "dev", name, "root", "tbf"}, tbf...)
		// A child is in the namespace of the thread that starts it.
		out, err = exec.CommandContext(t.Context(), "tc", args...).CombinedOutput()
		return err
	})
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Skip("needs tc of iproute2")
	case err != nil && strings.Contains(string(out), "unknown"):
		t.Skip("needs the kernel's token bucket filter")
	case err != nil:
		t.Fatalf("tc: %v: %s", err, out)
	}
}

// newVeth returns a wire whose ends are in namespaces of their own, joined by a
// veth pair that carries 20 Mbit/s each way, and the two namespaces. 100 KB wait
// before the bottleneck, which takes 40 ms to send them.
func newVeth(t *testing.T) *wire {
	t.Helper()
	near, far := newSpace(t), newSpace(t)
	err := near.do(func() error {
		pair := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "v0", MTU: 1500},
			PeerName:  "v0", PeerMTU: 1500, PeerNamespace: netlink.NsFd(far.fd),
		}
		return errors.Join(netlink.LinkAdd(pair), address("v0", "10.79.0.1/24"))
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t)
	w.near, w.far, w.nearUDP = near.do, far.do, "10.79.0.1:0"
	err = far.do(func() (err error) {
		if err := address("v0", "10.79.0.2/24"); err != nil {
			return err
		}
		w.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "10.79.0.2:0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.listener.Close() })
	for _, s := range []*space{near, far} {
		s.shape(t, "v0", "rate", "20mbit", "burst", "10kb", "limit", "100kb")
	}
	return w
}

// TestQueue fills a queue of known length, 40 ms, in front of a bottleneck.
// Reno halves its window when the queue is full, so that it is half full and
// more most of the time.
func TestQueue(t *testing.T) {
	for _, d := range []model.Direction{model.To, model.From} {
		t.Run(string(d), func(t *testing.T) {
			f := brief(d)
			f.Omit, f.Duration, f.Window = 500*time.Millisecond, 1500*time.Millisecond, 0
			f.Congestion, f.MSS = "reno", 1400
			var idle, loaded time.Duration
			for range 3 { // a busy machine adds delays of its own
				near, far := prepare(t, bulk(), newVeth(t), f)
				session(t, near, far, d)
				idle, loaded = near.value(t, d, model.IdleP50), near.value(t, d, model.LatencyP50)
				udp, tcp := near.latency(t, "loaded udp"), near.latency(t, "loaded tcp")
				t.Logf("idle p50 %v, loaded p50 %v p99 %v; udp %d of %d lost, tcp p50 %v",
					idle, loaded, near.value(t, d, model.LatencyP99), udp.Lost, udp.Sent, tcp.Times.Quantile(0.5).Or(0))
				added := loaded - idle
				if idle < 5*time.Millisecond && added > 10*time.Millisecond && added < 60*time.Millisecond {
					return
				}
			}
			t.Errorf("idle p50 %v, loaded p50 %v; a queue of 40 ms was filled", idle, loaded)
		})
	}
}
