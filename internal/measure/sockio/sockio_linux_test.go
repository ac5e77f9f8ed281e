package sockio

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

func TestSegmentSizeBeforeHandshake(t *testing.T) {
	o := engine.SocketOptions{MSS: 700, NoDelay: true, Congestion: "reno"}
	c, a := pair(t, o)
	for _, end := range []*net.TCPConn{c, a} {
		warnings := must.Get(Apply(end, o))(t)
		must.Equal(t, len(warnings), 0, "warnings %q", warnings)
	}
}

func TestSegmentSizeTooLate(t *testing.T) {
	c, _ := pair(t, engine.SocketOptions{NoDelay: true})
	warnings := must.Get(Apply(c, engine.SocketOptions{MSS: 700, NoDelay: true}))(t)
	must.True(t, len(warnings) == 1 && strings.Contains(warnings[0], "set too late"), "warnings %q, want one about the segment size", warnings)
}

func TestWindowAboveLimit(t *testing.T) {
	const huge = 1 << 30
	c, _ := pair(t, engine.SocketOptions{NoDelay: true})
	warnings := must.Get(Apply(c, engine.SocketOptions{Window: huge, NoDelay: true}))(t)
	all := strings.Join(warnings, "\n")
	for _, want := range []string{"net.core.wmem_max", "net.core.rmem_max"} {
		limit := must.Get(os.ReadFile("/proc/sys/" + strings.ReplaceAll(want, ".", "/")))(t)
		must.True(t, len(limit) > len("1073741823\n") || strings.Contains(all, want), "warnings %q do not name %s", warnings, want)
	}
}

// TestWindowAfterHandshake: the window may fill a buffer that was set after the handshake, on
// both ends; without openWindow a server's window stayed at 64 KiB (Linux 6.1).
func TestWindowAfterHandshake(t *testing.T) {
	c, a := pair(t, engine.SocketOptions{NoDelay: true})
	for _, end := range []*net.TCPConn{c, a} {
		for _, window := range []int{8 << 20, 1 << 20} { // nothing is lowered
			must.Get(Apply(end, engine.SocketOptions{Window: window, NoDelay: true}))(t)
			most := must.Get(OnDescriptor(end, func(fd uintptr) (int, error) {
				return unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_WINDOW_CLAMP)
			}))(t)
			must.True(t, most >= 8<<20, "the window may grow to %d bytes after a buffer of %d was set", most, window)
		}
	}
}

// TestMultipath: a Multipath TCP connection accepts options without a warning, and one that
// fell back to TCP has one.
func TestMultipath(t *testing.T) {
	must.SkipIf(t, must.Err(os.Stat("/proc/sys/net/mptcp")) != nil, "this kernel has no Multipath TCP")
	for _, both := range []bool{true, false} {
		var lc net.ListenConfig
		lc.SetMultipathTCP(both)
		l := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		o := engine.SocketOptions{Window: 8 << 10, NoDelay: true, MPTCP: true}
		c := must.Get(Dial(t.Context(), net.Dialer{}, "tcp", l.Addr().String(), o))(t)
		defer c.Close()
		warnings := strings.Join(must.Get(Apply(c.(*net.TCPConn), o))(t), "\n")
		must.Equal(t, warnings == "" || !strings.Contains(warnings, "fell back"), both, warnings)
		must.True(t, both || strings.Contains(warnings, "the other end does not offer it"), "%q", warnings)
	}
}

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     time.Duration
		fails    bool
	}{
		{"6.18", "cpu  3357 5 4313 1362393 120 7 88 9 1000 2000\ncpu0 1 2 3 4\n", (3357 + 5 + 4313 + 7 + 88) * tick, false},
		{"2.4", "cpu 1 2 3 4\n", 6 * tick, false},
		{"one cpu", "cpu0 1 2 3 4\n", 0, true},
		{"negative", "cpu 1 -2 3 4\n", 0, true},
		{"text", "cpu 1 x 3 4\n", 0, true},
		{"empty", "", 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseStat([]byte(c.in))
			must.True(t, got == c.want && (err != nil) == c.fails, "parseStat = %v, %v; want %v, error %t", got, err, c.want, c.fails)
		})
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("cpu  3357 0 4313 1362393 120 0 88 0 0 0\n"))
	f.Add([]byte("cpu"))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseStat(b) })
}

func TestCPUOfThreadAndMachine(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := must.Get(ThreadCPU())(t)
	process := must.Get(ProcessCPU())(t)
	must.True(t, thread.Total() <= process.Total(), "thread used %v, its process only %v", thread.Total(), process.Total())
	busy, err := SystemCPU()
	must.True(t, (err == nil || errors.Is(err, os.ErrNotExist)) && (err != nil || busy > 0), "SystemCPU = %v, %v", busy, err)
}

// TestAllowedCongestion: reno is always allowed (tcp_cong.c), and a name that would load a
// module is not.
func TestAllowedCongestion(t *testing.T) {
	for name, want := range map[string]bool{"reno": true, "nosuch": false, "": false, "reno cubic": false} {
		must.Equal(t, AllowedCongestion(name), want, "%q", name)
	}
}

// TestPortOpen: an open port answers, and its program sees no connection of most of the probes; a
// machine too busy to close one within 200 ms may show it.
func TestPortOpen(t *testing.T) {
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	const probes = 20
	for range probes {
		must.Do(t, PortOpen(t.Context(), l.Addr().String(), model.Egress{}))
	}
	own := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	defer own.Close()
	seen := 0
	for {
		c := must.Get(l.Accept())(t)
		defer c.Close()
		if c.RemoteAddr().String() == own.LocalAddr().String() {
			break
		}
		seen++
	}
	must.True(t, seen < probes, "the server saw all %d probes", seen)
	must.Do(t, l.Close())
	must.Is(t, PortOpen(t.Context(), l.Addr().String(), model.Egress{}), unix.ECONNREFUSED)
}
