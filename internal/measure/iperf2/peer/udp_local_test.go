package peer

import (
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/sockio"
	"linerate/internal/must"
)

// TestUDPAnswersFromAskedAddress asks a server on all addresses of a host at one that
// routing would not choose to answer from. The socket of iperf 2 is connected: it takes
// neither reports nor payload from another address.
func TestUDPAnswersFromAskedAddress(t *testing.T) {
	realProgram(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 on loopback")
	}
	for _, listen := range []string{"0.0.0.0", "::"} {
		for _, args := range [][]string{nil, {"-R"}, {"-d"}} {
			t.Run(listen+" "+strings.Join(args, ""), func(t *testing.T) {
				t.Parallel()
				l, pc := listenBoth(t, listen)
				s := serveOn(t, l, pc, ServerConfig{})
				_, port, _ := net.SplitHostPort(s.addr)
				options := append([]string{"-u", "-b", "4M", "-t", "0.5"}, args...)
				if slices.Contains(args, "-d") {
					options = append(options, "-L", strconv.Itoa(portAbove(t, s.addr)))
				}
				text := foreignClient(t, net.JoinHostPort("127.0.0.2", port), options...)
				must.True(t, !strings.Contains(text, "did not receive ack") && (args != nil || strings.Contains(text, "Server Report")), "%s", text)
				if args != nil {
					got := transfers(t, text)
					must.True(t, total(got, func(transfer) bool { return true }) != 0, "nothing came back:\n%s", text)
					s.await(t, "result", func(results []Result, _ []string) bool { return sum(results, model.From) > 0 })
				}
			})
		}
	}
}

// TestDatagramsAreMarked: a datagram bears the mark of its client, on a socket of all clients.
func TestDatagramsAreMarked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux marks single datagrams")
	}
	for listen, from := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1", "::": "127.0.0.1"} {
		c := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(listen)}))(t)
		defer c.Close()
		s := newUDPSocket(c)
		client := must.Get(net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(from), Port: c.LocalAddr().(*net.UDPAddr).Port}))(t)
		defer client.Close()
		must.Do(t, sockio.TellMarks(client))
		to := client.LocalAddr().(*net.UDPAddr).AddrPort()
		for _, dscp := range []int{46, 8} {
			must.Do(t, s.send([]byte("x"), local{oob: sockio.MarkMessage(dscp, to.Addr())}, to))
			oob := make([]byte, 64)
			_, n, _, _, err := client.ReadMsgUDPAddrPort(make([]byte, 1), oob)
			must.Do(t, err)
			mark, ok := sockio.Mark(oob[:n])
			must.True(t, ok && int(mark) == dscp<<2, "%s to %s: mark %#x, %t", listen, to, mark, ok)
		}
	}
}

// TestLateDatagrams: what a busy machine holds up goes out late, in order and without a
// gap in its numbers, as from a real server; of what took longer than paceBehind the rest
// is not made good.
func TestLateDatagrams(t *testing.T) {
	for stall, want := range map[time.Duration]int64{0: 100, 80 * time.Millisecond: 100, 300 * time.Millisecond: 80} {
		synctest.Test(t, func(t *testing.T) {
			var numbers []int64
			p := udpSender{
				stamp: stamper{layout: iperf2.Layout16}, size: 1000, rate: 800e3, length: time.Second,
				write: func(b []byte) error {
					numbers = append(numbers, must.Get(iperf2.ParseDatagram(b, iperf2.Layout16))(t).ID)
					if len(numbers) == 10 {
						<-time.After(stall)
					}
					return nil
				},
			}
			r := p.run(t.Context())
			last := len(numbers) - 1
			for i, n := range numbers[:last] {
				must.Equal(t, n, int64(i+1), "number of datagram %d", i+1)
			}
			must.Equal(t, numbers[last], -int64(last+1), "the final one")
			must.True(t, r.UDP.Sent >= want && r.UDP.Sent <= want+2, "%d were sent after a stall of %v, want %d", r.UDP.Sent, stall, want)
		})
	}
}
