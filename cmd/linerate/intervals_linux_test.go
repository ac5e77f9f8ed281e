package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"linerate/internal/host/referee"
)

// intervalLines is what scripts that read iperf3 look for.
var intervalLines = regexp.MustCompile(`(?m)^\[(SUM|[ \d]{3})\]( +)\d+\.\d\d-\d+\.\d\d +sec +[\d.]+ [KMG]?Bytes +[\d.]+ [KMG]?bits/sec`)

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

// TestFirstHour18AsIperf3 holds the lines of intervals, connections and their sum
// against those of iperf3 itself: the same columns, as many lines.
func TestFirstHour18AsIperf3(t *testing.T) {
	needRoot(t)
	t.Parallel()
	iperf := referee.Program(t, "iperf3")
	n := newNetns(t)
	server := exec.CommandContext(t.Context(), "ip", "netns", "exec", n.b, iperf, "-s", "-1")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var theirs []byte
	for try := 0; ; try++ { // until the server listens
		var err error
		if theirs, err = exec.CommandContext(t.Context(), "ip", "netns", "exec", n.a, iperf, "-c", farAddr, "-P", "2", "-t", "1", "-i", "0.5").Output(); err == nil {
			break
		}
		if try == 50 {
			t.Fatalf("%v\n%s", err, theirs)
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = server.Wait()
	r := run(t, n.inside(t, "a", "test", n.agent("b"), "--to", "-P", "2", "-t", "1", "-i", "0.5s", "--omit", "0s", "--idle", "0s", "-q"))
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	want, wantEnds := columns(string(theirs))
	got, ends := columns(r.out)
	if want["SUM"] != 4 || got["SUM"] != want["SUM"] || got["1"] != want["SUM"] || got["2"] != want["SUM"] {
		t.Errorf("lines %v, iperf3 has %v\n%s\n%s", got, want, r.out, theirs)
	}
	if len(ends) != 1 || len(wantEnds) != 1 {
		t.Errorf("columns end at %v, iperf3's at %v\n%s\n%s", ends, wantEnds, r.out, theirs)
	}
	for end := range ends {
		if !wantEnds[end] {
			t.Errorf("columns end at %d, iperf3's at %v\n%s\n%s", end, wantEnds, r.out, theirs)
		}
	}
	has(t, "whose numbers they are", r.out, "to ", "received\n", "sender", "receiver")
	if r := run(t, n.inside(t, "a", "test", n.agent("b"), "--to", "-P", "2", "-t", "0.2", "--omit", "0s", "--idle", "0s", "-q", "--json")); r.code != 0 || strings.Contains(r.out, "[SUM]") {
		t.Errorf("exit code %d, one document with --json:\n%.300s", r.code, r.out)
	}
}
