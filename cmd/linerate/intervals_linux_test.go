package main

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// intervalLines is what scripts that read iperf3 look for. Lines of an idle interval have no
// prefix before the unit, and end two columns earlier.
var intervalLines = regexp.MustCompile(`(?m)^\[(SUM|[ \d]{3})\]( +)\d+\.\d\d-\d+\.\d\d +sec +[\d.]+ [KMG]Bytes +[\d.]+ [KMG]bits/sec`)

// columns returns the lines of intervals in out by what they are of, and where in them
// the unit of the rate ends.
func columns(out string) (of map[string]int, ends map[int]bool) {
	of, ends = map[string]int{}, map[int]bool{}
	for _, m := range intervalLines.FindAllStringSubmatch(out, -1) {
		of[strings.TrimSpace(m[1])]++
		ends[len(m[0])] = true
	}
	return of, ends
}

// heads are the headers over the lines in out, without the spaces at their ends.
func heads(out string) (all []string) {
	for line := range strings.Lines(out) {
		if line = strings.TrimRight(line, " \n"); strings.HasPrefix(line, "[ ID]") && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// idle waits until the server of iperf3 listens and has ended the test before.
func idle(t testing.TB, n *netns) {
	t.Helper()
	eventually(t, patience, "iperf3 listens and measures nothing", func() bool {
		sockets := ip(t, "netns", "exec", n.far, "ss", "-Htan")
		return strings.Contains(sockets, ":5201") && !strings.Contains(sockets, "ESTAB") && !strings.Contains(sockets, "CLOSE-WAIT")
	})
}

// TestFirstHour18AsIperf3 holds the lines of intervals, connections and their sum
// against those of iperf3 itself, beside an agent and beside a server of iperf3: the
// same columns, headers too; of TCP and of UDP.
func TestFirstHour18AsIperf3(t *testing.T) {
	needRoot(t)
	t.Parallel()
	iperf := referee.Program(t, "iperf3")
	n := newNetns(t)
	server := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.far, iperf, "-s")
	must.Do(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	theirs := func(args ...string) string {
		args = append([]string{"netns", "exec", n.near, iperf, "-c", farAddr, "-t", "1", "-i", "0.5"}, args...)
		idle(t, n)
		out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput()
		must.Need(t, err == nil, "%v\n%s", err, out)
		return string(out)
	}
	ours := func(far string, args ...string) string {
		r := run(t, n.inside(t, "near", append([]string{"test", far, "--to", "-t", "1", "-i", "0.5s", "--omit", "0s", "--idle", "0s", "-q"}, args...)...))
		must.Need(t, r.code == 0, "%s %v: exit code %d\n%s%s", far, args, r.code, r.out, r.err)
		return r.out
	}
	for name, args := range map[string][]string{"TCP": {"-P", "2"}, "UDP": {"-u", "-b", "10M"}} {
		want := theirs(args...)
		wantLines, wantEnds := columns(want)
		all := map[string]string{"an agent": ours(n.agent("far"), args...)}
		idle(t, n)
		all["a server of iperf3"] = ours("iperf3://"+farAddr, args...)
		for whose, got := range all {
			lines, ends := columns(got)
			// An interval at least and both ends' totals: a busy machine may make it one more.
			must.True(t, (name != "TCP" || min(wantLines["SUM"], lines["SUM"], lines["1"], lines["2"]) >= 3 && lines["SUM"] == lines["1"]) && (name != "UDP" || lines["1"] >= 3), "%s beside %s: lines %v, iperf3 has %v\n%s\n%s", name, whose, lines, wantLines, got, want)
			must.True(t, len(ends) == 1 && maps.Equal(ends, wantEnds), "%s beside %s: columns end at %v, iperf3's at %v\n%s\n%s", name, whose, ends, wantEnds, got, want)
			for _, head := range heads(got) {
				must.True(t, slices.Contains(heads(want), head), "%s beside %s: header\n%s\niperf3 has no such header:\n%s", name, whose, head, want)
			}
			has(t, "whose numbers they are", got, "to ", "sender", "receiver")
		}
		if name == "TCP" && !regexp.MustCompile(`(?m)^\[  1\] .*/sec +\d+ +[\d.]+ [KM]Bytes$`).MatchString(all["a server of iperf3"]) {
			t.Errorf("no segments sent again and no window:\n%s", all["a server of iperf3"])
		}
	}
	r := run(t, n.inside(t, "near", "test", n.agent("far"), "--to", "-P", "2", "-t", "0.2", "--omit", "0s", "--idle", "0s", "-q", "--json"))
	must.True(t, r.code == 0 && !strings.Contains(r.out, "[SUM]"), "exit code %d, one document with --json:\n%.300s", r.code, r.out)
}
