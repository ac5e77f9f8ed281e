package datagram

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

func TestEgressAndQueues(t *testing.T) {
	home := netip.MustParseAddr("127.0.0.1")
	link := must.Get(egress(home, home))(t)
	lo, err := net.InterfaceByName("lo")
	must.SkipIf(t, err != nil, "the loopback interface is not called lo here")
	must.Equal(t, int(link), lo.Index, "127.0.0.1 is reached through %d, want %d", link, lo.Index)
	queues, err := queuesOf(link)
	must.True(t, err == nil && len(queues) != 0 && queues[0].kind != "", "queues %+v, %v", queues, err)
}

// TestKernelPacing requests it with queues that cannot pace and, if this kernel has it, with
// fq.
func TestKernelPacing(t *testing.T) {
	w := enginetest.NewVeth(t, enginetest.Bucket{})
	attempt := func() (*Sender, error) {
		a, b := w.ConnectedUDP()
		must.Do(t, b.Close())
		c := must.Get(Attach(a, Options{}))(t)
		t.Cleanup(func() { c.Close() })
		var s *Sender
		err := w.AtNear(func() (err error) {
			s, err = NewSender(c, SenderOptions{Size: 1000, Gap: 1e6, Pacing: ByKernel})
			return err
		})
		return s, err
	}
	if _, err := attempt(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "noqueue") {
		t.Errorf("without a queue: %v", err)
	}
	err := w.AtNear(func() error {
		l, err := netlink.LinkByName(enginetest.Device)
		if err != nil {
			return err
		}
		return netlink.QdiscReplace(&netlink.Fq{QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT,
		}})
	})
	must.SkipIf(t, err != nil, "this kernel has no fair queue (module sch_fq): %v", err)
	must.Equal(t, must.Get(attempt())(t).Pacing(), "kernel: fq", "pacing")
}

// TestDepartures sends with departure times over loopback, which has no queue that honours
// them: the kernel accepts them, and each datagram leaves at most the lead too early.
// TestDeparturesKeepTheRate checks the rate.
func TestDepartures(t *testing.T) {
	sent, missed, took := departing(t)
	// 3000 have 2999 gaps of 0.1 ms between them, and the last leaves at most the lead too early.
	must.True(t, sent == 3000 && took >= 2999*100*time.Microsecond-lead, "sent %d and gave up %d in %v", sent, missed, took)
}

// departing sends 3000 datagrams with departure times, 0.1 ms apart, over loopback.
func departing(t testing.TB) (sent, missed int64, took time.Duration) {
	t.Helper()
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 1000, Gap: 100_000}, limits{count: 3000})
	err := f.a.socket.(*native).takeDepartures()
	must.SkipIf(t, err != nil, "this kernel takes no departure times (SO_TXTIME): %v", err)
	f.send.times = make([]int64, f.send.slots)
	took = f.run()
	sent = f.send.Sent.Load()
	must.Need(t, f.sendErr == nil && f.tally.Received == sent && f.send.Refused.Load() == 0,
		"sent %d, received %d, refused %d, %v", sent, f.tally.Received, f.send.Refused.Load(), f.sendErr)
	return sent, f.send.Missed.Load(), took
}

func TestLeaf(t *testing.T) {
	for name, c := range map[string]struct {
		queues []queue
		want   string
	}{
		"none":     {nil, "none"},
		"root":     {[]queue{{kind: "fq", parent: rootParent}}, "fq"},
		"mq":       {[]queue{{kind: "mq", handle: 1 << 16, parent: rootParent}, {kind: "fq", parent: 1<<16 | 1}, {kind: "fq", parent: 1<<16 | 2}}, "fq"},
		"mixed":    {[]queue{{kind: "mq", parent: rootParent}, {kind: "fq", parent: 1}, {kind: "pfifo", parent: 2}}, "mixed"},
		"ingress":  {[]queue{{kind: "ingress", parent: 0xfffffff1}, {kind: "fq", parent: rootParent}}, "fq"},
		"classful": {[]queue{{kind: "htb", handle: 1 << 16, parent: rootParent}, {kind: "fq", parent: 1<<16 | 1}}, "htb"},
	} {
		t.Run(name, func(t *testing.T) { must.Equal(t, leaf(c.queues), c.want, "got") })
	}
}

// qdiscMessage returns a message about a queue as the kernel sends it.
func qdiscMessage(q queue) []byte {
	b := make([]byte, queueHeader)
	binary.NativeEndian.PutUint32(b[4:], uint32(q.link))
	binary.NativeEndian.PutUint32(b[8:], q.handle)
	binary.NativeEndian.PutUint32(b[12:], q.parent)
	b = appendAttribute(b, attributeKind, append([]byte(q.kind), 0))
	m := make([]byte, messageHeader)
	binary.NativeEndian.PutUint32(m, uint32(messageHeader+len(b)))
	binary.NativeEndian.PutUint16(m[4:], unix.RTM_NEWQDISC)
	return append(m, b...)
}

func FuzzNetlink(f *testing.F) {
	want := queue{link: 2, handle: 1 << 16, parent: rootParent, kind: "fq_codel"}
	f.Add(qdiscMessage(want))
	f.Add(append(qdiscMessage(want), qdiscMessage(want)...))
	f.Add([]byte{16, 0, 0, 0, unix.NLMSG_DONE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{20, 0, 0, 0, unix.NLMSG_ERROR, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = eachMessage(b, func(_ uint16, body []byte) {
			parseRoute(body)
			parseQueue(body)
		})
	})
}

func TestParseQueue(t *testing.T) {
	want := queue{link: 2, handle: 1 << 16, parent: rootParent, kind: "fq_codel"}
	var got []queue
	more, err := eachMessage(append(qdiscMessage(want), qdiscMessage(want)...), func(_ uint16, b []byte) {
		if q, ok := parseQueue(b); ok {
			got = append(got, q)
		}
	})
	must.True(t, err == nil && more && len(got) == 2 && got[0] == want, "got %+v, %t, %v", got, more, err)
}

// controls joins control messages as the kernel does.
func controls(parts ...func([]byte) []byte) []byte {
	var b []byte
	for _, p := range parts {
		b = p(b)
	}
	return b
}

func control(level, kind int32, data []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		m := make([]byte, unix.CmsgSpace(len(data)))
		putControl(m, level, kind, len(data))
		copy(m[unix.CmsgLen(0):], data)
		return append(b, m...)
	}
}

func stamp(seconds, nanos uint64) []byte {
	return binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, seconds), nanos)
}

func TestParseControl(t *testing.T) {
	segment := control(unix.IPPROTO_UDP, unix.UDP_GRO, binary.NativeEndian.AppendUint32(nil, 1472))
	when := control(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, stamp(1_700_000_000, 123))
	other := control(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, []byte{1, 2, 3, 4})
	for name, c := range map[string]struct {
		b    []byte
		each int
		wall int64
	}{
		"none":  {nil, 0, 0},
		"both":  {controls(when, other, segment), 1472, 1_700_000_000_000_000_123},
		"train": {controls(segment), 1472, 0},
		"short": {controls(control(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, []byte{1})), 0, 0},
		"cut":   {controls(segment, when)[:unix.CmsgSpace(4)+10], 1472, 0},
	} {
		t.Run(name, func(t *testing.T) {
			each, wall := parseControl(c.b)
			must.True(t, each == c.each && wall == c.wall, "got %d, %d, want %d, %d", each, wall, c.each, c.wall)
		})
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(controls(control(unix.IPPROTO_UDP, unix.UDP_GRO, []byte{1, 0, 0, 0}),
		control(unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, stamp(1, 2))))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, in []byte) {
		// The kernel writes to aligned memory.
		words := make([]uint64, len(in)/8+1)
		b := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
		copy(b, in)
		parseControl(b[:len(in)])
	})
}

// TestTrains: trains are used if the kernel supports them.
func TestTrains(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 1000}, limits{count: 640})
	f.run()
	must.SkipIf(t, !f.a.socket.cuts(1000), "this kernel has no UDP_SEGMENT")
	must.True(t, f.send.Segmented() && f.receive.Coalesced(), "segmented %t, coalesced %t", f.send.Segmented(), f.receive.Coalesced())
	must.True(t, f.tally.Received == 640 && f.odd == 0, "received %d, %d odd ones", f.tally.Received, f.odd)
	known := f.b.Dropped().IsKnown() && f.b.RecvBuffer().IsKnown() && f.a.PathMTU().IsKnown()
	must.True(t, known, "dropped %v, buffer %v, mtu %v", f.b.Dropped(), f.b.RecvBuffer(), f.a.PathMTU())
}

// TestUncutFallsBack refuses a train: the rest goes one by one.
func TestUncutFallsBack(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 1000}, limits{count: 200})
	f.send.tx = &stubborn{f.send.tx}
	f.run()
	must.True(t, !f.send.Segmented() && f.tally.Received == 200 && f.sendErr == nil, "segmented %t, received %d, %v", f.send.Segmented(), f.tally.Received, f.sendErr)
}

// stubborn imitates a kernel that cuts no trains.
type stubborn struct{ transmitter }

func (s *stubborn) send(n int, cut bool) (int, outcome, error) {
	if cut && n > 1 {
		return sendFailed(unix.EIO, true)
	}
	return s.transmitter.send(n, cut)
}

// TestOverflow lets a receiver sleep while more arrives than its buffer holds: the kernel
// counts the drops.
func TestOverflow(t *testing.T) {
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{Plain: true, RecvBuffer: 1 << 16}, SenderOptions{Size: 1000}, limits{count: 2000})
	must.Do(t, f.send.Run())
	f.run()
	dropped := f.b.Dropped().Or(-1)
	must.True(t, dropped > 0 && dropped+f.tally.Received == 2000, "dropped %d, received %d of 2000", dropped, f.tally.Received)
}
