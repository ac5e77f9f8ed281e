package lab

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
	"linerate/internal/must"
)

// probe sends datagrams of size IP bytes, which must not be fragmented, with times to live of 1
// to n, in rounds followed by a gap. It prints that many ICMP errors or, for 0, those before
// the far host's, by time to live: the time to live, sender, type, code, and MTU if the error
// has one.
func probe(to string, n, size, answers, rounds int, gap time.Duration) error {
	addr, err := netip.ParseAddr(to)
	if err != nil {
		return err
	}
	family, level, ttl, discover, errors, header := unix.AF_INET, unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, 20+8
	var where unix.Sockaddr = &unix.SockaddrInet4{Port: 33434, Addr: [4]byte(addr.AsSlice()[:4])}
	if addr.Is6() {
		family, level, ttl, discover, errors, header = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR, 40+8
		where = &unix.SockaddrInet6{Port: 33434, Addr: addr.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	set := func(name, value int) {
		if err == nil {
			err = unix.SetsockoptInt(fd, level, name, value)
		}
	}
	set(discover, unix.IP_PMTUDISC_PROBE) // the same for IPv6
	set(errors, 1)
	buf := make([]byte, size-header)
	send := func(hops int) {
		set(ttl, hops)
		buf[0] = byte(hops)
		for tries := 0; err == nil || tries < 100; tries++ { // a call that sends nothing returns a pending error
			if err = unix.Sendto(fd, buf, 0, where); err == nil {
				return
			}
		}
	}
	for range rounds {
		for i := range n {
			send(i + 1)
		}
		<-time.After(gap)
	}
	if answers == 0 {
		send(lastHop)
	}
	if err != nil {
		return err
	}
	out := []string{}
	oob := make([]byte, 512)
	for last := byte(0); len(out) < answers || answers == 0 && last != lastHop; {
		if k, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, int(patience/time.Millisecond)); err == nil && k == 0 {
			return fmt.Errorf("no answer but %q", out)
		}
		_, oobn, _, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(messages) != 1 {
			return fmt.Errorf("%d control messages: %w", len(messages), err)
		}
		// struct sock_extended_err of include/uapi/linux/errqueue.h, followed by the sender.
		e := messages[0].Data
		from := netip.AddrFrom4([4]byte(e[20:24]))
		if addr.Is6() {
			from = netip.AddrFrom16([16]byte(e[24:40]))
		}
		text := fmt.Sprintf("%d %s %d/%d", buf[0], from, e[5], e[6])
		if mtu := binary.NativeEndian.Uint32(e[8:]); mtu > 0 {
			text += fmt.Sprint(" ", mtu)
		}
		out, last = append(out, text), buf[0]
	}
	slices.Sort(out)
	return json.NewEncoder(os.Stdout).Encode(out)
}

// lastHop is a time to live that does not expire on the path.
const lastHop = 64

// probes returns the output of probe in host from, sent to the other host.
func probes(t testing.TB, l *Lab, from model.Host, six bool, n, size, answers, rounds, gapMicros int) (got []string) {
	t.Helper()
	far := model.Near
	if from == model.Near {
		far = model.Far
	}
	to := l.Addr(far)
	if six {
		to = l.Addr6(far)
	}
	args := []string{"probe-hops", to.String()}
	for _, v := range []int{n, size, answers, rounds, gapMicros} {
		args = append(args, strconv.Itoa(v))
	}
	must.Do(t, json.Unmarshal(run(t, l, from, args...), &got))
	return got
}

// TestRouters: each router reports by ICMP what it did with a datagram, with its address
// towards the sender, and forwards the rest.
func TestRouters(t *testing.T) {
	for _, tt := range []struct {
		spec  string
		from  model.Host
		six   bool
		size  int
		wants string
	}{
		{"hops=3", model.Near, false, 100, "1 10.99.0.2 11/0, 2 10.99.1.2 11/0, 3 10.99.2.2 11/0, 4 10.99.3.2 3/3"},
		{"rate=1gbit,rtt=2ms,hops=3", model.Far, false, 1500, "1 10.99.3.1 11/0, 2 10.99.2.1 11/0, 3 10.99.1.1 11/0, 4 10.99.0.1 3/3"},
		{"hops=3", model.Near, true, 1500, "1 fd00:99::2 3/0, 2 fd00:99:0:1::2 3/0, 3 fd00:99:0:2::2 3/0, 4 fd00:99:0:3::2 1/4"},
		{"rtt=1ms,hops=1", model.Far, true, 100, "1 fd00:99:0:1::1 3/0, 2 fd00:99::1 1/4"},
		{"hops=3,hop2.mtu=1400", model.Near, false, 1401, "1 10.99.0.2 11/0, 2 10.99.1.2 11/0, 3 10.99.1.2 3/4 1400, 4 10.99.1.2 3/4 1400"},
		{"hops=3,hop2.mtu=1400", model.Near, true, 1401, "1 fd00:99::2 3/0, 2 fd00:99:0:1::2 3/0, 3 fd00:99:0:1::2 2/0 1400, 4 fd00:99:0:1::2 2/0 1400"},
		{"hops=2,hop2.mtu=1400", model.Near, false, 1401, "1 10.99.0.2 11/0, 2 10.99.1.2 11/0, 3 10.99.1.2 3/4 1400"},
		{"hops=3,hop2.mtu=1400", model.Near, false, 1400, "1 10.99.0.2 11/0, 2 10.99.1.2 11/0, 3 10.99.2.2 11/0, 4 10.99.3.2 3/3"},
		{"hops=3,hop2.mtu=1400", model.Far, false, 1500, "1 10.99.3.1 11/0, 2 10.99.2.1 11/0, 3 10.99.1.1 11/0, 4 10.99.0.1 3/3"},
		{"hops=2,from.hop1.mtu=1300", model.Far, true, 1400, "1 fd00:99:0:2::1 3/0, 2 fd00:99:0:1::1 3/0, 3 fd00:99:0:1::1 2/0 1300"},
		{"hops=3,hop2.silent", model.Near, false, 100, "1 10.99.0.2 11/0, 3 10.99.2.2 11/0, 4 10.99.3.2 3/3"},
		{"hops=3,hop2.silent,hop1.late=5ms", model.Far, true, 100, "1 fd00:99:0:3::1 3/0, 3 fd00:99:0:1::1 3/0, 4 fd00:99::1 1/4"},
		{"hops=3,hop1.ecmp=2,hop1.silent", model.Near, false, 100, "2 10.99.1.2 11/0, 3 10.99.2.2 11/0, 4 10.99.3.2 3/3"},
	} {
		t.Run(fmt.Sprint(tt.spec, " ", tt.from, " ", tt.six, " ", tt.size), func(t *testing.T) {
			l := startLab(t, tt.spec, wire.Packet)
			must.Equal(t, strings.Join(probes(t, l, tt.from, tt.six, len(l.Spec().Hops)+1, tt.size, 1+strings.Count(tt.wants, ", "), 1, 0), ", "), tt.wants)
		})
	}
}

// TestErrorsWithoutLimit: a router without a limit on ICMP errors answers everything sent at
// once, more than the kernel's limits of six to one address and 50 in total.
func TestErrorsWithoutLimit(t *testing.T) {
	l := startLab(t, "hops=1,hop1.icmp=unlimited", wire.Packet)
	n := 90
	if exec.CommandContext(t.Context(), "unshare", "-rn", "test", "-e", "/proc/sys/net/ipv4/icmp_msgs_burst").Run() != nil {
		n = 20 // an older kernel has one limit of 50 for all namespaces
	}
	for _, six := range []bool{false, true} {
		must.Len(t, probes(t, l, model.Near, six, 1, 100, n, n, 0), n)
	}
}

func TestRoutersNeedPackets(t *testing.T) {
	startLab(t, "hops=1", wire.Auto) // skips if labs are unavailable
	spec := must.Get(ParseSpec("hops=1"))(t)
	must.Say(t, must.Err(Start(t.Context(), spec, testConfig(wire.TAP))), "leave out hops=")
}

// ping sends n datagrams of size bytes from a host and returns how many were answered.
func ping(t testing.TB, l *Lab, from model.Host, to string, n, size int) (answered int) {
	t.Helper()
	must.Do(t, json.Unmarshal(run(t, l, from, "udp-answers", to, fmt.Sprint(n), fmt.Sprint(size)), &answered))
	return answered
}

// train sends n numbered datagrams from near to far. It returns far's counts, what the wire did
// to all frames of that direction, and how many of those were others: end marks, and the
// kernel's neighbour discovery.
func train(t testing.TB, l *Lab, n, size, gapMicros int) (c counted, did wire.Counters, others uint64) {
	t.Helper()
	result := listen(t, l, model.Far, "udp-count")
	run(t, l, model.Near, "udp-burst", "far", fmt.Sprint(n), fmt.Sprint(size), fmt.Sprint(gapMicros))
	result(&c)
	st := must.Get(l.Stats(t.Context()))(t)
	return c, st.To, st.To.Frames - uint64(n)
}

// TestFramesAreLostHeldBackAndDoubled: what the receiver finds missing, late and duplicate is
// what the wire reports. TestLossReorderDuplicate checks the shares.
func TestFramesAreLostHeldBackAndDoubled(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			const n = 300 // fits into a socket buffer, however late its reader is
			l := startLab(t, "rtt=1ms,to.loss=10%,to.reorder=10%,to.dup=10%", kind)
			c, did, others := train(t, l, n, 64, 0)
			lost, twice := n-uint64(c.Distinct), uint64(c.Received-c.Distinct)
			must.True(t, lost != 0 && lost <= did.Lost && did.Lost <= lost+others,
				"%d datagrams are missing, the wire lost %d, some of them of %d others", lost, did.Lost, others)
			must.True(t, c.Late != 0 && uint64(c.Late) <= did.Reordered && c.Distance >= wire.ReorderDistance,
				"%d late, by up to %d datagrams; the wire held back %d", c.Late, c.Distance, did.Reordered)
			must.True(t, twice != 0 && twice <= did.Duplicated, "%d arrived twice, the wire doubled %d", twice, did.Duplicated)
			must.True(t, did.Missed+did.Refused <= 0, "frames were lost outside the wire: %+v", did)
		})
	}
}

func TestQueueDrops(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			const n = 50
			// A frame takes 25 ms and the queue holds five: a sender that takes less than a
			// second loses some.
			c, did, others := train(t, startLab(t, "rate=500kbit,queue=8KiB,rtt=0s", kind), n, 1472, 0)
			lost := n - uint64(c.Distinct)
			must.True(t, lost != 0 && lost <= did.QueueDrops && did.QueueDrops <= lost+others && did.Lost <= 0,
				"%d datagrams are missing, the queue dropped %d, some of them of %d others; %d were lost", lost, did.QueueDrops, others, did.Lost)
		})
	}
}

func TestBlackholeDropsLargeFramesOnly(t *testing.T) {
	for _, tt := range []struct {
		kind wire.Kind
		spec string
	}{
		{wire.Packet, "rtt=0s,to.blackhole=1400"}, {wire.TAP, "rtt=0s,to.blackhole=1400"},
		{wire.Packet, "hops=2,hop1.blackhole=1400"}, {wire.Packet, "rtt=0s,hops=1,to.blackhole=1400,from.delay=1ms"},
	} {
		t.Run(string(tt.kind)+"/"+tt.spec, func(t *testing.T) {
			l := startLab(t, tt.spec, tt.kind)
			listen(t, l, model.Far, "udp-echo")
			// Plus 20 bytes of IPv4 header and 8 of UDP.
			must.Equal(t, ping(t, l, model.Near, "far", 3, 1372), 3, "of 3 packets of 1400 bytes came back")
			must.Equal(t, ping(t, l, model.Near, "far", 3, 1373), 0, "of 3 packets of 1401 bytes came back")
			st := must.Get(l.Stats(t.Context()))(t)
			must.True(t, st.To.MTUDrops == 3 && st.From.MTUDrops == 0, "wire says %d and %d vanished, want 3 and 0", st.To.MTUDrops, st.From.MTUDrops)
			must.True(t, st.To.Frames >= 8 && st.To.Delivered >= 5 && st.To.Missed+st.To.Refused == 0, "3, 3 and 2 frames were sent: %+v", st.To)
		})
	}
}

// TestBundle: both members of a bundle carry flows, each with the link's own keys: a policer
// that passes 15 of these frames, and then one in 8 s.
func TestBundle(t *testing.T) {
	l := startLab(t, "hops=2,hop1.police=1kbit,hop1.ecmp=2", wire.Packet)
	const n = 60
	run(t, l, model.Near, "udp-fan", "far", fmt.Sprint(n), "1000")
	must.Until(t, "all frames", func() bool {
		to := must.Get(l.Stats(t.Context()))(t).To
		return to.Delivered+to.Policed >= n
	})
	to := must.Get(l.Stats(t.Context()))(t).To
	must.True(t, to.Delivered > 22 && to.Policed > 20, "two members let %d frames pass and drop %d", to.Delivered, to.Policed)
}

func TestJumboAndSmallMTU(t *testing.T) {
	for _, kind := range kinds {
		for mtu, keys := range map[int]string{576: "mtu=576", 9000: "mtu=9000", 1400: "hops=2,hop1.mtu=1400"} {
			t.Run(fmt.Sprintf("%s/%d", kind, mtu), func(t *testing.T) {
				must.SkipIf(t, kind == wire.TAP && mtu == 1400, "routers need veth pairs")
				l := startLab(t, "rate=200mbit,rtt=1ms,"+keys, kind)
				result := listen(t, l, model.Far, "tcp-sink", "0", "50", "2")
				before := must.Get(l.Stats(t.Context()))(t)
				run(t, l, model.Near, "tcp-source", "far")
				var rates []float64
				result(&rates)
				st := must.Get(l.Stats(t.Context()))(t)
				// Bulk TCP fills its frames, and none may exceed the MTU.
				mean := float64(st.To.Bytes-before.To.Bytes) / float64(st.To.Frames-before.To.Frames)
				full := float64(mtu + wire.HeaderBytes)
				must.True(t, mean >= 0.9*full && mean <= full, "mean frame of %.0f bytes, want nearly %.0f", mean, full)
			})
		}
	}
}

// TestMain makes the test binary act as the lab's processes and as the programs that tests run
// in the hosts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "lab-init" {
		exit(Child(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "peer" {
		exit(peer(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
