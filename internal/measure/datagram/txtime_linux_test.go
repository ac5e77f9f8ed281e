package datagram

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

func TestEgressAndQueues(t *testing.T) {
	home := netip.MustParseAddr("127.0.0.1")
	link := must.Get(egress(home, home))(t)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("the loopback interface is not called lo here")
	}
	must.Equal(t, int(link), lo.Index, "127.0.0.1 is reached through %d, want %d", link, lo.Index)
	queues, err := queuesOf(link)
	must.True(t, err == nil && len(queues) != 0 && queues[0].kind != "", "queues %+v, %v", queues, err)
}

// TestKernelPacing asks for it through queues that cannot and, where this
// kernel has one, through fq.
func TestKernelPacing(t *testing.T) {
	w := enginetest.NewVeth(t, enginetest.Bucket{})
	attempt := func() (*Sender, error) {
		a, b := w.ConnectedUDP()
		must.Do(t, b.Close())
		c, err := Attach(a, Options{})
		must.Do(t, err)
		t.Cleanup(func() { c.Close() })
		var s *Sender
		err = w.AtNear(func() (err error) {
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
	if err != nil {
		t.Skipf("this kernel has no fair queue (module sch_fq): %v", err)
	}
	s := must.Get(attempt())(t)
	must.Equal(t, s.Pacing(), "kernel: fq", "pacing")
}

// TestDepartures sends with departure times over loopback, which has no queue
// that would look at them: the kernel takes them, and none goes earlier than they are
// handed over ahead. TestDeparturesKeepTheRate holds the rate.
func TestDepartures(t *testing.T) {
	sent, missed, took := departing(t)
	// 3000 take 0.3 s, less the lead; a sender that was held up gives up others.
	must.True(t, sent == 3000 && took >= 300*time.Millisecond-lead, "sent %d and gave up %d in %v", sent, missed, took)
}

// departing sends 3000 datagrams with departure times, 0.1 ms apart, over loopback.
func departing(t testing.TB) (sent, missed int64, took time.Duration) {
	t.Helper()
	a, b := loopback(t, "udp4")
	f := newFlow(t, a, b, Options{}, SenderOptions{Size: 1000, Gap: 100_000}, limits{count: 3000})
	if err := f.a.socket.(*native).takeDepartures(); err != nil {
		t.Skipf("this kernel takes no departure times (SO_TXTIME): %v", err)
	}
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
		t.Run(name, func(t *testing.T) {
			must.Equal(t, leaf(c.queues), c.want, "got")
		})
	}
}

// qdiscMessage is a message about a queue as the kernel sends it.
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
