package main

import (
	"os/exec"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestForeignLimits lets the real programs ask linerate serve for more than the
// limits of --open, which hold for them without it too.
func TestForeignLimits(t *testing.T) {
	t.Parallel()
	v := serveJSON(t, serveEverything(t))
	needProgram(t, "iperf3")
	for asked, says := range map[string]string{
		"-u -b 101M -t 1":      "total required bandwidth is larger than server limit",
		"-u -b 101M -t 1 -R":   "total required bandwidth is larger than server limit",
		"-u -b 60M -P 2 -t 1":  "total required bandwidth is larger than server limit",
		"-n 1M -P 17":          "number of parallel streams",
		"-t 61":                "", // versions differ in how they say so
		"-u -b 0 -t 1 --bidir": "total required bandwidth is larger than server limit",
	} {
		r := run(t, exec.CommandContext(t.Context(), "iperf3", append([]string{"-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf3"])}, strings.Fields(asked)...)...))
		must.True(t, r.code != 0 && strings.Contains(r.out+r.err, says), "iperf3 %s: exit code %d, no %q in\n%s%s", asked, r.code, says, r.out, r.err)
	}
}

// TestForeignMistakes gives targets that are not what they are called.
func TestForeignMistakes(t *testing.T) {
	t.Parallel()
	nobody := freePort(t)
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"test", "iperf3://127.0.0.1:" + nobody}, 3, []string{"connection refused", "start it with: iperf3 -s"}},
		{[]string{"test", "iperf2://127.0.0.1:" + nobody}, 3, []string{"connection refused", "start it with: iperf -s"}},
		{[]string{"sweep", "netpipe://127.0.0.1:" + nobody}, 3, []string{"connection refused", "start it with: NPtcp"}},
		{[]string{"test", "iperf3://nowhere.invalid"}, 3, []string{"nowhere.invalid", "is the name right?"}},
	} {
		fails(t, c.code, append(c.args, "-q"), c.says...)
	}
	v := serveJSON(t, serveEverything(t))
	fails(t, 3, []string{"test", "iperf3://" + v.Foreign["netpipe"], "-t", "0.2s", "-q"}, "closed before its first word", "if it is an iperf3 server")
	// Each is told the other's name, and soon.
	for wrong, right := range map[string]string{"iperf2": "iperf3", "iperf3": "iperf2"} {
		for _, more := range [][]string{nil, {"--bidir"}} {
			fails(t, 3, append([]string{"test", wrong + "://" + v.Foreign[right], "-t", "10s", "-q"}, more...),
				"this looks like an iperf", "use "+right+"://"+v.Foreign[right])
		}
	}
}
