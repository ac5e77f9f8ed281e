package hops

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// The answers of a router and of a far end to probes of 10.77.1.1 and fd77:1::1, as raw sockets
// of Linux 6.18 received them: an IPv4 header, an ICMP header, the quote.
const (
	outer      = "45c00048be8600004001a4d20a4d01020a4d0101"
	expired    = "0b00638000000000"
	closed     = "03036b7d00000000"
	narrow     = "03045c7400000500"
	inner      = "4500002c00004000011162250a4d01010a4d0202"
	inner6     = "6008a8e600181101fd770001000000000000000000000001fd770002000000000000000000000002"
	ports      = "9c419c42001817c6" // 40001 to 40002
	payload    = "4c494e45524154450000000100000007"
	lastOfPort = "9c419c43001817c6"
)

func TestQuotes(t *testing.T) {
	for _, c := range []struct{ name, heard, quote, want string }{
		{"a router, IPv4", outer + expired + inner + ports + payload, payload, "ours"},
		{"the far end, IPv4", outer + closed + inner + ports + payload, payload, "ours"},
		{"no more than 8 bytes of the datagram", outer + closed + inner + ports, "", "ours"},
		{"a link that is too narrow, IPv4", outer + narrow + inner + ports + payload, payload, "too big"},
		{"a router, IPv6", "030077b200000000" + inner6 + ports + payload, payload, "ours"},
		{"the far end, IPv6", "010479ad00000000" + inner6 + ports + payload, payload, "ours"},
		{"a link that is too narrow, IPv6", "0200601500000500" + inner6 + ports + payload, payload, "too big"},
		{"a header of IPv4 with options", outer + expired + "46" + inner[2:] + "94040000" + ports + payload, payload, "ours"},
		{"another port", outer + expired + inner + lastOfPort + payload, "", "not ours"},
		{"another address", outer + expired + inner[:38] + "03" + ports + payload, "", "not ours"},
		{"another protocol", outer + expired + inner[:18] + "06" + inner[20:] + ports + payload, "", "not ours"},
		{"a fragment that came too late", outer + "0b01638000000000" + inner + ports + payload, "", "not ours"},
		{"an echo reply", outer + "0000638000000000" + inner + ports + payload, "", "not ours"},
		{"a neighbour's advertisement", "8800638000000000" + inner6 + ports + payload, "", "not ours"},
		{"less than a header of UDP", outer + expired + inner + ports[:14], "", "not ours"},
		{"half a header of IPv4", outer + expired + inner[:20], "", "not ours"},
		{"half a header of IPv6", "030077b200000000" + inner6[:40], "", "not ours"},
		{"half a header of ICMP", outer + expired[:8], "", "not ours"},
		{"a header of IPv4 that says that it is longer", "4f" + outer[2:], "", "not ours"},
		{"nothing", "", "", "not ours"},
	} {
		near, far := netip.MustParseAddrPort("10.77.1.1:40001"), netip.MustParseAddrPort("10.77.2.2:40002")
		if c.heard != "" && c.heard[0] != '4' {
			near, far = netip.MustParseAddrPort("[fd77:1::1]:40001"), netip.MustParseAddrPort("[fd77:2::2]:40002")
		}
		a, ours := quotes(must.Get(hex.DecodeString(c.heard))(t), near, far)
		got := "not ours"
		if a.tooBig && ours {
			got = "too big"
		} else if ours {
			got = "ours"
		}
		if must.Equal(t, got, c.want, c.name); ours {
			must.Equal(t, hex.EncodeToString(a.quote), c.quote, c.name)
		}
	}
}

func TestEchoed(t *testing.T) {
	const (
		rest  = "0100000010000000"
		four  = "0a4d0102"
		six   = "000000000000" + "fd770001000000000000000000000002" + "00000000" + "0000" // port and flow, address, scope, padding to a multiple of 4
		later = "052b0000"                                                                // 11013
	)
	for _, c := range []struct{ name, heard, from string }{
		{"the far end, IPv4", four + "00000000" + rest, "10.77.1.2"},
		{"a router, IPv4", four + later + rest, "10.77.1.2"},
		{"a router that knows no way", four + "fa2a0000" + rest, "10.77.1.2"},
		{"a link that is too narrow", four + "012b0000" + rest, "10.77.1.2 too big"},
		{"no answer in time", four + "022b0000" + rest, ""},
		{"a call that failed", "0000000000000000" + rest, ""},
		{"a router, IPv6", six + later + rest, "fd77:1::2"},
		{"no answer in time, IPv6", six + "022b0000" + rest, ""},
	} {
		a, ok := echoed(must.Get(hex.DecodeString(c.heard))(t), len(c.heard) > 40)
		got := ""
		if ok {
			got = a.from.String()
		}
		if ok && a.tooBig {
			got += " too big"
		}
		must.Equal(t, got, c.from, c.name)
	}
}

// way is a socket to a path of routers that quote that many bytes of a probe; the peer is the
// third node.
type way struct {
	quotes  int
	answers chan answer
}

func (w way) send(ttl int, b []byte) error {
	w.answers <- answer{quote: bytes.Clone(b[:w.quotes]), from: netip.AddrFrom4([4]byte{10, 0, 0, byte(min(ttl, 3))}), took: time.Millisecond}
	return nil
}

func (w way) receive() (answer, error) {
	a, ok := <-w.answers
	if !ok {
		return a, net.ErrClosed
	}
	return a, nil
}

func (w way) close() error {
	close(w.answers)
	return nil
}

// TestShortQuotes: if routers quote no payload, a socket for each distance tells them apart,
// from the second round on.
func TestShortQuotes(t *testing.T) {
	for quotes, first := range map[int]bool{0: false, cookieSize: false, quoted: true} {
		synctest.Test(t, func(t *testing.T) {
			opened := 0
			tracer := &Tracer{peer: netip.MustParseAddr("10.0.0.3"), reach: mostHops, ports: 1, open: func(context.Context, int) (socket, error) {
				opened++
				return way{quotes, make(chan answer, 1)}, nil
			}}
			tracer.turn = make(chan struct{}, 1)
			tracer.listen(must.Get(tracer.open(t.Context(), 0))(t), 0)
			for i := range 3 {
				tracer.round(t.Context(), idle, i, quoted)
				synctest.Wait()
			}
			found := tracer.Report(t.Context())
			must.Equal(t, opened > 1, !first, "%d bytes: sockets of their own", quotes)
			must.Need(t, len(found.Hops) == 3, "%d bytes: %+v", quotes, found)
			for i, h := range found.Hops {
				must.Equal(t, h.Address, fmt.Sprintf("10.0.0.%d", i+1))
				must.Equal(t, h.Arrived, i == 2, h.Address)
				must.Equal(t, [3]bool{h.Idle[0] > 0, h.Idle[1] > 0, h.Idle[2] > 0}, [3]bool{first, true, true}, "%d bytes: %s", quotes, h.Address)
			}
		})
	}
}

// TestLoopback: without a router on the path the peer answers at the first distance, before the
// load and under it, and large packets arrive, although its port is open for others. It also runs on FreeBSD in QEMU and on Wine.
func TestLoopback(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", net.JoinHostPort(host, "0"))
		if err != nil && host == "::1" {
			continue // system without IPv6
		}
		must.Do(t, err)
		defer l.Close()
		local := netip.MustParseAddr(host)
		c := Config{
			Direction: model.To, Local: local, Peer: l.LocalAddr().(*net.UDPAddr).AddrPort(), Lead: 50 * time.Millisecond,
			Rate: func() float64 { return 0 }, Fail: func(err error) { t.Error(err) },
		}
		tracer, err := Start(t.Context(), c)
		if local.Is6() && errors.Is(err, errors.ErrUnsupported) {
			continue // Wine 8
		}
		if errors.Is(err, fs.ErrPermission) {
			t.Skip(err) // not root, on FreeBSD or macOS
		}
		must.Do(t, err)
		rounds := func(p phase, n int) {
			for {
				tracer.mu.Lock()
				times := answered(tracer.hops[1].times[p])
				tracer.mu.Unlock()
				if times >= n {
					return
				}
				<-time.After(time.Millisecond)
			}
		}
		rounds(idle, 1)
		tracer.Quiet()
		tracer.Load()
		rounds(loaded, 1)
		trace := tracer.Report(t.Context())
		must.Need(t, len(trace.Hops) == 1 && trace.Why == "", "%s: %+v", host, trace)
		h := trace.Hops[0]
		must.True(t, h.Arrived && h.Address == host && h.TTL == 1, "%s: %+v", host, h)
		sizes := must.Get(Sizes(t.Context(), c, 1400))(t)
		must.Need(t, len(sizes.Hops) == 1, "%s: %+v", host, sizes)
		small := answered(sizes.Hops[0].Idle)
		large := answered(sizes.Hops[0].Loaded)
		must.True(t, small > 0 && large > 0, "%s: sizes %+v", host, sizes)
	}
}

// answered returns how many rounds were answered.
func answered(rounds []time.Duration) int {
	return len(slices.DeleteFunc(slices.Clone(rounds), func(d time.Duration) bool { return d == 0 }))
}
