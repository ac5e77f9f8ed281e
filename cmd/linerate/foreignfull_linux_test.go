package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

// TestServerOutOfDescriptors takes all descriptors that anonymous clients can have of a server
// by connections to each of its listeners: those of sessions stay, and afterwards
// every program is served.
func TestServerOutOfDescriptors(t *testing.T) {
	t.Parallel()
	// The limit comes before the server, which becomes another user: not every root
	// may change what that one has.
	v := serveJSON(t, fewFiles(t, serveEverything(t)))
	for name, addr := range map[string]string{"iperf3": v.Foreign["iperf3"], "iperf2": v.Foreign["iperf2"], "netpipe": v.Foreign["netpipe"], "linerate": v.Address} {
		var all []net.Conn
		for range 300 {
			// The kernel completes the handshake of what the server cannot take.
			if c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", addr); err == nil {
				all = append(all, c)
			}
		}
		must.True(t, len(all) >= 150, "%s: only %d connections", name, len(all))
		held := func() int { return descriptors(t, v.p) }
		n := held()
		must.True(t, n <= 96-budget.Divide(96, 3).Sessions, "%s: anonymous clients hold %d of 96 descriptors", name, n)
		measured(t, briefly(v.Link), bothWays)
		for _, c := range all {
			_ = c.Close()
		}
		eventually(t, patience, name+" gives its descriptors back", func() bool { return held() < 40 })
	}
	foreignClient(t, iperf3Fault, "iperf3", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf3"]), "-n", "2M", "-J")
	foreignClient(t, iperf2Fault, "iperf", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf2"]), "-n", "2M", "-y", "C")
	foreignClient(t, unchecked, "NPtcp", "-h", "127.0.0.1", "-P", portOf(v.Foreign["netpipe"]), "-n", "20", "-u", "16", "-o", os.DevNull)
	measured(t, briefly(v.Link), bothWays)
}

// fewFiles gives cmd 96 descriptors. The limit comes before the server, which becomes
// another user: not every root may change what that one has.
func fewFiles(t testing.TB, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	limited := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `ulimit -n 96 && exec "$@"`, "sh"}, cmd.Args...)...)
	limited.Env = cmd.Env
	return limited
}

// descriptors returns how many descriptors a process has.
func descriptors(t testing.TB, p *process) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
	must.Dof(t, err, "the server is gone")
	return len(list)
}
