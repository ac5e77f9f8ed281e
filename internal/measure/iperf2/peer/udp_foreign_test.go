package peer

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/iperf2"
	"linerate/internal/measure/sockio"
	"linerate/internal/must"
)

// 4 Mbit/s: some hundred datagrams, which no loaded machine loses.
const gentle units.BitRate = 4e6

func TestUDPClientWithForeignServer(t *testing.T) {
	realProgram(t)
	for _, m := range clientModes {
		if strings.Contains(m.name, "2.0.5") {
			continue // 2.1.8 and 2.0.5 do not understand each other's reports: see TestUDPLegacy
		}
		for _, f := range []model.Flow{
			{Duration: time.Second / 2, Interval: 100 * time.Millisecond, Streams: 1},
			{Duration: time.Second / 2, Streams: 2, Block: 500},
			{Bytes: 100_000, Streams: 1},
		} {
			if f.Duration > 0 && !must.Slow {
				continue
			}
			if f.Streams > 1 && m.client.ConnectBack {
				continue // as over TCP
			}
			t.Run(fmt.Sprintf("%s/%d streams, %d bytes", m.name, f.Streams, f.Bytes), func(t *testing.T) {
				t.Parallel()
				f.Direction, f.Engine, f.Params = m.d, udp.Name, traffic.Write(udp.Params{Rate: gentle})
				checkUDPWithForeignServer(t, m.client, f)
			})
		}
	}
}

func checkUDPWithForeignServer(t testing.TB, c Client, f model.Flow) {
	addr, out := foreignServer(t, "-u")
	var s taken
	near, far, err := c.Run(t.Context(), addr, f, s.emit)
	must.Need(t, err == nil, "%v\nnear %+v\nserver:\n%s", err, near, out)
	must.True(t, len(near.Warnings)+len(far.Warnings) == 0, "warnings %q, %q", near.Warnings, far.Warnings)
	stars := c.mode(f).ConnectsBack() || f.Direction == model.Both
	mixed := mixedUp(f)
	for _, d := range f.Direction.Parts() {
		role, back := model.Sender, false
		if d == model.From {
			role, back = model.Receiver, stars
		}
		ours := find(t, near, d, role)
		checkAmount(t, f, d, ours)
		if d == model.To && f.Direction == model.To {
			got := find(t, far, d, model.Receiver)
			must.True(t, ours.UDP.Sent-got.UDP.Received <= mixed && got.UDP.Lost <= mixed && got.Window > 0 &&
				got.Bytes <= ours.Bytes && (f.Streams != 1 || got.Bytes == ours.Bytes),
				"far %+v %+v, near %+v %+v", got, got.UDP, ours, ours.UDP)
		}
		must.True(t, d != model.From || ours.UDP.Lost == 0 && ours.UDP.Received != 0 && ours.UDP.Jitter.IsKnown(), "from: %+v", ours.UDP)
		out.await(t, fmt.Sprintf("agreement on the %d bytes %s", ours.Bytes, d), func(s string) bool {
			got := total(transfers(t, s), func(x transfer) bool { return x.back == back })
			return agree(got, ours.Bytes) || got < ours.Bytes && ours.Bytes-got <= units.Bytes(mixed)*payloadOf(f)
		})
	}
}

// mixedUp is how many datagrams fewer than arrived the program may count: if several streams
// begin at once it assigns a datagram of one to another (docs/wire/iperf2.md section 8). It
// counts all of a single stream.
func mixedUp(f model.Flow) int64 { return 5 * int64(max(f.Streams, 1)-1) }

// payloadOf returns the size of f's datagrams over IPv4.
func payloadOf(f model.Flow) units.Bytes { return cmp.Or(f.Block, size4) }

// checkAmount compares a direction with the request.
func checkAmount(t testing.TB, f model.Flow, d model.Direction, got model.FlowReport) {
	t.Helper()
	want := float64(f.Bytes)
	if f.Duration > 0 {
		want = float64(gentle) / 8 * f.Duration.Seconds()
	}
	// 2.1.8 begins with two datagrams at once, and the final one is one more. On a loaded
	// machine a sender skips what it cannot send in time.
	r := float64(got.Bytes) / want
	must.True(t, r <= 1.1 && r >= 0.4 && (f.Bytes <= 0 || r >= 0.99), "%s: %d bytes are %.3f of what was asked for", d, got.Bytes, r)
	must.True(t, f.Duration <= 0 || got.Window >= f.Duration*8/10, "%s: window %v", d, got.Window)
}

// "[  1] 0.0000-0.5871 sec  17640 Bytes  240372 bits/sec   0.068 ms 0/12 (0%)".
var lossLine = regexp.MustCompile(`ms +(\d+)/(\d+) +\(`)

func TestUDPServerWithForeignClient(t *testing.T) {
	realProgram(t)
	for _, m := range foreignModes() {
		for _, amount := range [][]string{{"-t", "0.5", "-b", "4m"}, {"-n", "100000", "-b", "4m"}, {"-t", "0.5", "-P", "3", "-b", "1m", "-l", "300"}} {
			if (amount[0] != "-n" || m.mode.ConnectsBack()) && !must.Slow {
				continue
			}
			args := append(append([]string{"-u"}, m.args...), amount...)
			t.Run(fmt.Sprint(m.mode, " ", strings.Join(args, " ")), func(t *testing.T) {
				t.Parallel()
				checkUDPWithForeignClient(t, m.mode, args)
			})
		}
	}
}

func checkUDPWithForeignClient(t testing.TB, mode iperf2.Mode, args []string) {
	n, s := 1, startServer(t, ServerConfig{})
	if strings.Contains(strings.Join(args, " "), "-P 3") {
		n = 3
	}
	if mode.ConnectsBack() {
		args = append(args, "-L", fmt.Sprint(portAbove(t, s.addr)))
	}
	text := foreignClient(t, s.addr, args...)
	results, log := s.await(t, "results", func(r []Result, _ []string) bool { return len(r) == n })
	must.Len(t, log, 0, "log")
	for _, r := range results {
		must.True(t, r.Mode == mode && r.UDP && len(r.Report.Warnings) == 0, "result %+v", r)
	}
	got := total(transfers(t, text), func(transfer) bool { return true })
	// The program's listener may lose the first datagram of a returning flow.
	first := 0
	if mode.ConnectsBack() {
		first = 1
	}
	ours := sum(results, model.To) + sum(results, model.From)
	must.True(t, agree(ours, got) || got <= ours && ours-got <= units.Bytes(first*size4), "server has %d bytes, client %d:\n%s", ours, got, text)
	if mode.ConnectsBack() && n > 1 {
		return // the program's listener mixes up the first datagrams of several flows
	}
	for _, m := range lossLine.FindAllStringSubmatch(text, -1) {
		lost, _ := strconv.Atoi(m[1])
		all, _ := strconv.Atoi(m[2])
		must.True(t, lost <= first && all != 0, "%s:\n%s", m[0], text)
	}
	must.True(t, mode != iperf2.Forward || n != 1 || strings.Contains(text, "Server Report"), "the client shows no report:\n%s", text)
}

// TestUDPAnswersFromAskedAddress: a server on all addresses of a host answers from the address
// that the client used, even if routing would choose another one. The socket of iperf 2 is
// connected: it accepts neither reports nor payload from another address.
func TestUDPAnswersFromAskedAddress(t *testing.T) {
	realProgram(t)
	must.SkipIf(t, runtime.GOOS != "linux", "only Linux has all of 127.0.0.0/8 on loopback")
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
					must.True(t, total(transfers(t, text), func(transfer) bool { return true }) != 0, "nothing came back:\n%s", text)
					s.await(t, "result", func(results []Result, _ []string) bool { return sum(results, model.From) > 0 })
				}
			})
		}
	}
}

// TestDatagramsAreMarked: datagrams carry the mark that their client requested, on a socket
// that all clients share.
func TestDatagramsAreMarked(t *testing.T) {
	must.SkipIf(t, runtime.GOOS != "linux", "only Linux marks single datagrams")
	for listen, from := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1", "::": "127.0.0.1"} {
		c := must.Get(net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(listen)}))(t)
		defer c.Close()
		s := accept.New(c)
		client := must.Get(net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(from), Port: c.LocalAddr().(*net.UDPAddr).Port}))(t)
		defer client.Close()
		must.Do(t, sockio.TellMarks(client))
		to := client.LocalAddr().(*net.UDPAddr).AddrPort()
		for _, dscp := range []int{46, 8} {
			must.Do(t, s.Send([]byte("x"), accept.Local{Control: sockio.MarkMessage(dscp, to.Addr())}, to))
			oob := make([]byte, 64)
			_, n, _, _, err := client.ReadMsgUDPAddrPort(make([]byte, 1), oob)
			must.Do(t, err)
			mark, ok := sockio.Mark(oob[:n])
			must.True(t, ok && int(mark) == dscp<<2, "%s to %s: mark %#x, %t", listen, to, mark, ok)
		}
	}
}

// TestLateDatagrams: datagrams that a busy machine delays leave late, in order and without a
// gap in their numbers, as from a real server. Of a delay beyond paceBehind the rest is not
// made up for.
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
