package lab

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/lab/wire"
	"linerate/internal/must"
)

// probe sends datagrams of size IP bytes, which may not be fragmented, with times to live
// of 1 to n, and prints so many ICMP errors that came back, by time to live: that, sender,
// type, code, and MTU where the error tells one.
func probe(to string, n, size, answers int) error {
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
	for i := 1; i <= n && err == nil; i++ {
		set(ttl, i)
		buf[0] = byte(i)
		for range n { // an error that waits is told once, by a call that sends nothing
			if err = unix.Sendto(fd, buf, 0, where); err == nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	out := []string{}
	oob := make([]byte, 512)
	for len(out) < answers {
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
		out = append(out, text)
	}
	slices.Sort(out)
	return json.NewEncoder(os.Stdout).Encode(out)
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
			far := model.Near
			if tt.from == model.Near {
				far = model.Far
			}
			to := l.Addr(far)
			if tt.six {
				to = l.Addr6(far)
			}
			var got []string
			must.Do(t, json.Unmarshal(run(t, l, tt.from, "probe-hops", to.String(), fmt.Sprint(len(l.Spec().Hops)+1), fmt.Sprint(tt.size), fmt.Sprint(1+strings.Count(tt.wants, ", "))), &got))
			must.Equal(t, strings.Join(got, ", "), tt.wants)
		})
	}
}
