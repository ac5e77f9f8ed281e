package watch

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// mostTracked bounds what the test fills: 256 bytes an entry, gone with the namespace.
const mostTracked = 300_000

// tracked has the namespace track its connections, and returns how many a table takes.
func tracked(t *testing.T) int {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip(err)
	}
	rules := exec.CommandContext(t.Context(), nft, "-f", "-")
	rules.Stdin = strings.NewReader("table inet t {\nchain out {\ntype filter hook output priority 0;\nct state invalid counter;\n}\n}\n")
	if out, err := rules.CombinedOutput(); err != nil {
		t.Skipf("nft: %v: %s", err, out)
	}
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if err != nil {
		t.Skip(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || most > mostTracked {
		t.Skipf("a table of %q entries is too large to be filled", b)
	}
	return most
}

// TestTableFull fills the table of tracked connections for real: datagrams to many
// addresses, each a connection of its own. A full table forgets connections that
// nobody answered, and drops what it finds no room for.
func TestTableFull(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	up(t, "lo")
	most := tracked(t)
	w := watching(t, "lo")
	before := reading(t, w)
	c := must.Get(net.ListenUDP("udp4", nil))(t)
	defer c.Close()
	port := uint16(c.LocalAddr().(*net.UDPAddr).Port) // nobody reads it, and no errors come back
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			a := netip.AddrFrom4([4]byte{127, byte(1 + i>>16), byte(i >> 8), byte(i)})
			_, err := c.WriteToUDPAddrPort([]byte("x"), netip.AddrPortFrom(a, port))
			must.Need(t, err == nil || errors.Is(err, unix.EPERM), "%v", err)
		}
	}
	fill(0, 1000)
	half := reading(t, w)
	if moved := Delta(before, half); find(moved, "track_dropped", "")+find(moved, "track_evicted", "") != 0 || find(moved, countersRead, "track") != 2 {
		t.Errorf("the table is nearly empty: %+v", moved)
	}
	fill(1000, most+2000)
	moved := Delta(half, reading(t, w))
	n := find(moved, "track_dropped", "") + find(moved, "track_evicted", "")
	must.True(t, n >= 500, "%d dropped or evicted of 2000 beyond the table: %+v", n, moved)
}

// TestMarks sends datagrams with and without marks of ECN.
func TestMarks(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	up(t, "lo")
	r := must.Get(net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))))(t)
	defer r.Close()
	w := watching(t, "lo")
	for mark, name := range map[int]string{0: "ecn_unmarked", 2: "ecn_capable", 3: "ecn_congested"} {
		before := reading(t, w)
		c := must.Get(net.DialUDP("udp", nil, r.LocalAddr().(*net.UDPAddr)))(t)
		raw, err := c.SyscallConn()
		must.Do(t, err)
		must.Do(t, raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, mark) }))
		must.Do(t, err)
		for range 20 {
			must.Get(c.Write([]byte("x")))(t)
		}
		moved := Delta(before, reading(t, w))
		for _, other := range []string{"ecn_unmarked", "ecn_capable", "ecn_congested"} {
			want := int64(0)
			if other == name {
				want = 20
			}
			must.Equal(t, find(moved, other, ""), want, "mark %d: %s moved by", mark, other)
		}
		must.OK(t, c.Close())
	}
}
