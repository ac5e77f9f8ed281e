package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/measure/budget"
)

// TestServerOutOfDescriptors takes all descriptors that anonymous clients can have of a server
// by connections to each of its listeners: those of sessions stay, and afterwards
// every program is served.
func TestServerOutOfDescriptors(t *testing.T) {
	// The limit comes before the server, which becomes another user: not every root
	// may change what that one has.
	server := command(t, "serve", "--json", "--listen", "127.0.0.1:0", "--iperf3=127.0.0.1:0", "--iperf2=127.0.0.1:0",
		"--netpipe=127.0.0.1:0", "--state", t.TempDir())
	limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 96 && exec "$@"`, "sh"}, server.Args...)...)
	limited.Env = server.Env
	p := start(t, limited)
	t.Cleanup(func() { _ = p.cmd.Process.Signal(os.Interrupt); p.wait(t, 10*time.Second) })
	eventually(t, 10*time.Second, "the server's document", func() bool { return strings.HasSuffix(strings.TrimSpace(p.said()), "}") })
	d := decode[struct {
		Link    string            `json:"link"`
		Address string            `json:"address"`
		Foreign map[string]string `json:"foreign"`
	}](t, p.said())
	for name, addr := range map[string]string{"iperf3": d.Foreign["iperf3"], "iperf2": d.Foreign["iperf2"], "netpipe": d.Foreign["netpipe"], "linerate": d.Address} {
		var all []net.Conn
		for range 300 {
			// The kernel completes the handshake of what the server cannot take.
			if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", addr); err == nil {
				all = append(all, c)
			}
		}
		if len(all) < 150 {
			t.Errorf("%s: only %d connections", name, len(all))
		}
		held := func() int {
			list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
			if err != nil {
				t.Fatalf("%s: the server is gone: %v", name, err)
			}
			return len(list)
		}
		if n := held(); n > 96-budget.Divide(96, 3).Sessions {
			t.Errorf("%s: anonymous clients hold %d of 96 descriptors", name, n)
		}
		measured(t, func() []string { return briefly(d.Link) }, nil)
		for _, c := range all {
			_ = c.Close()
		}
		eventually(t, 20*time.Second, name+" gives its descriptors back", func() bool { return held() < 40 })
	}
	foreignClient(t, iperf3Fault, "iperf3", "-c", "127.0.0.1", "-p", portOf(d.Foreign["iperf3"]), "-t", "1", "-J")
	foreignClient(t, iperf2Fault, "iperf", "-c", "127.0.0.1", "-p", portOf(d.Foreign["iperf2"]), "-t", "1", "-y", "C")
	foreignClient(t, func(string) string { return "" }, "NPtcp", "-h", "127.0.0.1", "-P", portOf(d.Foreign["netpipe"]), "-n", "20", "-u", "16", "-o", os.DevNull)
	measured(t, func() []string { return briefly(d.Link) }, bothWays)
}
