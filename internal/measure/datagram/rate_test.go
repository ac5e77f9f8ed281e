//go:build slow && linux

package datagram

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

type space struct {
	work chan func()
	fd   int
}

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

func (s *space) do(f func() error) error {
	done := make(chan error)
	s.work <- func() { done <- f() }
	return <-done
}

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

func veth(t testing.TB) (near, far *space) {
	near, far = newSpace(t), newSpace(t)
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
	if err := far.do(func() error { return address("v0", "10.78.0.2/24") }); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func TestRates(t *testing.T) {
	near, far := veth(t)
	for _, size := range []int{64, 1472} {
		for _, plain := range []bool{true, false} {
			for _, gap := range []float64{0, 1472 * 8 * 10, 1472 * 8} {
				if gap > 0 && !plain {
					continue
				}
				t.Run(fmt.Sprintf("%d/plain=%v/gap=%v", size, plain, gap), func(t *testing.T) {
					a, b := connected(t, "udp4", "10.78.0.2", near.do, far.do)
					f := newFlow(t, a, b, Options{Plain: plain}, SenderOptions{Size: size, Gap: gap}, limits{time: 2 * time.Second})
					took := f.run()
					v := f.tally.Variation()
					t.Logf("%.0f kpps sent, %.0f kpps received, missing %d dropped %v refused %d missed %d jitter %v pdv p50 %v p99 %v trains %v/%v err %v %v buf %v",
						float64(f.send.Sent.Load())/took.Seconds()/1e3, float64(f.tally.Received)/took.Seconds()/1e3,
						f.send.Next()-f.tally.Total, f.b.Dropped(), f.send.Refused.Load(), f.send.Missed.Load(), f.tally.Jitter(), v.Quantile(.5), v.Quantile(.99),
						f.send.Segmented(), f.receive.Coalesced(), f.sendErr, f.recvErr, f.b.RecvBuffer())
				})
			}
		}
	}
}
