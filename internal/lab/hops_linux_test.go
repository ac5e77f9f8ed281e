package lab

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
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

// probe sends datagrams of size IP bytes, which may not be fragmented, with times to live
// of 1 to n, in rounds that a gap lies behind. It prints so many ICMP errors that came
// back, or for 0 those before the one of the far host, by time to live: that, sender, type,
// code, and MTU where the error tells one.
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
		for tries := 0; err == nil || tries < 100; tries++ { // a call that sends nothing returns an error that waits
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
		// struct sock_extended_err of include/uapi/linux/errqueue.h, and the sender behind it.
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

// lastHop is a time to live that ends nowhere on the way.
const lastHop = 64

// probes returns what probe printed in host from, sent to the other one.
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

// TestRouters: each router says by ICMP what it did with a datagram, with the address that
// it has towards the sender, and lets the rest pass.
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
			got := probes(t, l, tt.from, tt.six, len(l.Spec().Hops)+1, tt.size, 1+strings.Count(tt.wants, ", "), 1, 0)
			must.Equal(t, strings.Join(got, ", "), tt.wants)
		})
	}
}

// TestErrorsWithoutLimit: a router whose ICMP errors have no limit answers all that is sent
// at once, more than the six of the kernel's own limit.
func TestErrorsWithoutLimit(t *testing.T) {
	l := startLab(t, "hops=1,hop1.icmp=unlimited", wire.Packet)
	for _, six := range []bool{false, true} {
		must.Len(t, probes(t, l, model.Near, six, 1, 100, 20, 20, 0), 20)
	}
}

func TestRoutersNeedPackets(t *testing.T) {
	startLab(t, "hops=1", wire.Auto) // skips where there are no labs
	spec := must.Get(ParseSpec("hops=1"))(t)
	must.Say(t, must.Err(Start(t.Context(), spec, testConfig(wire.TAP))), "leave out hops=")
}
