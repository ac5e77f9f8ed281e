package peer

import (
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/model"
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
				if strings.Contains(text, "did not receive ack") || args == nil && !strings.Contains(text, "Server Report") {
					t.Errorf("%s", text)
				}
				if args != nil {
					got := transfers(t, text)
					must.True(t, total(got, func(transfer) bool { return true }) != 0, "nothing came back:\n%s", text)
					s.await(t, "result", func(results []Result, _ []string) bool { return sum(results, model.From) > 0 })
				}
			})
		}
	}
}
