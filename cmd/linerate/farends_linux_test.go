package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/report"
)

type farEndsDocument struct {
	Session model.Session   `json:"session"`
	Report  report.Document `json:"report"`
}

// TestFarEndsInLabs: blocks alternate over three far ends of known rates, with a setting
// of each. Every run carries what its own path does, everything is undone, and the
// session goes on later with connections of its own.
func TestFarEndsInLabs(t *testing.T) {
	needLab(t)
	t.Parallel()
	db := filepath.Join(t.TempDir(), "results.db")
	rates := map[string]float64{"lab:rate=50mbit,rtt=1ms": 50e6, "lab:rate=20mbit,rtt=1ms": 20e6, "lab:rate=35mbit,rtt=1ms": 35e6}
	args := []string{"run", "--factor", "far=lab:rate=50mbit,rtt=1ms,lab:rate=20mbit,rtt=1ms,lab:rate=35mbit,rtt=1ms", "--factor", "far.tcp.recv_buffer_max=1MiB,2MiB",
		"--settle", "0s", "--no-twin", "-t", "200ms", "--omit", "100ms", "--max-blocks", "8", "--budget", "4s", "--db", db, "--json", "-q"}
	told := succeed(t, append(args, "--dry-run")...).out
	dry := decode[report.DryRun](t, told)
	if err := validate("linerate/dryrun/v1", told); err != nil || dry.Runs != 48 || len(dry.Settings) != 6 || dry.Baseline != "A1B1" {
		t.Errorf("%v: %+v", err, dry)
	}
	// 300 ms at the ceilings of three links, each with two settings in eight blocks.
	if got, want := float64(dry.Bytes.Or(0)), 16*0.3/8*0.9415*105e6; got < 0.99*want || got > 1.01*want {
		t.Errorf("%.0f bytes are foreseen, want %.0f", got, want)
	}
	r := run(t, command(t, args...))
	if err := validate("linerate/session/v3", r.out); r.code != 0 || err != nil {
		t.Fatalf("exit code %d, %v\n%s", r.code, err, r.err)
	}
	d := decode[farEndsDocument](t, r.out)
	s := d.Session
	if len(s.Plan.Ends) != 2 || len(d.Report.FarEnds) != 3 || d.Report.FarEnds[1].Ceiling.Or(0) > 19e6 || s.Far != "lab:rate=50mbit,rtt=1ms" {
		t.Errorf("far %s, %d ends, %+v", s.Far, len(s.Plan.Ends), d.Report.FarEnds)
	}
	check := func(s model.Session) {
		t.Helper()
		shares := map[string][]float64{}
		for _, r := range s.Runs {
			setting, _ := s.Plan.Setting(r.Setting)
			if got, ok := r.Value(model.To, model.Goodput); ok && r.State == model.RunValid {
				end := setting.FarEnd()
				shares[end] = append(shares[end], got/rates[end])
			}
		}
		for end := range rates { // the run in the middle: a busy machine spoils short ones
			slices.Sort(shares[end])
			if n := len(shares[end]); n < 2 || shares[end][n/2] < 0.7 || shares[end][n/2] > 1.05 {
				t.Errorf("%s: shares of its wire %.2f", end, shares[end])
			}
		}
		for _, c := range s.Changes {
			if c.State != model.ChangeUndone {
				t.Errorf("%+v", c)
			}
		}
		if len(s.Changes) != len(s.Runs) {
			t.Errorf("%d changes of %d runs", len(s.Changes), len(s.Runs))
		}
	}
	check(s)
	more := decode[farEndsDocument](t, succeed(t, "run", "--resume", "last", "--max-blocks", "8", "--db", db, "--json", "-q").out).Session
	// Eight blocks, whose last may leave out what seven decided.
	if len(s.Runs) >= 42 || len(more.Runs) <= 42 || more.Runs[len(more.Runs)-1].Block != 8 || more.Reason == s.Reason {
		t.Errorf("%d runs (%s), then %d (%s)", len(s.Runs), s.Reason, len(more.Runs), more.Reason)
	}
	check(more)
	for format, want := range map[string]string{"html": "Every far end with every", "markdown": "far end"} {
		file := filepath.Join(t.TempDir(), "report")
		succeed(t, "report", "last", "--format", format, "-o", file, "--db", db)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q is not in %d bytes, %v", format, want, len(text), err)
		}
	}
}

// TestFarEndDies: an agent that ends for good in the middle of a session costs three
// runs; the session goes on with the others, and says so.
func TestFarEndDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := func(name, how string) string {
		file := filepath.Join(dir, name)
		must(os.WriteFile(file, []byte(fmt.Sprintf("#!/bin/sh\n%s\n", fmt.Sprintf(how, fmt.Sprintf("%s agent --state %s", binary, filepath.Join(dir, "state-"+name))))), 0o700))
		return "exec:127.0.0.1 " + file
	}
	lives := agent("lives", "exec %s")
	dies := agent("dies", "test -e "+dir+"/gone && exit 1\n: >"+dir+"/gone\nexec timeout 5 %s")
	r := run(t, command(t, "run", "--factor", "far="+lives+","+dies, "--settle", "0s", "--no-twin", "-t", "500ms", "--omit", "0s", "--cooldown", "100ms", "--rate", "10M", "--udp", "--blocks", "12",
		"--objective", "goodput", "--guard", "none", "--json"))
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.err)
	}
	s := decode[farEndsDocument](t, r.out).Session
	counted, lost := map[string]int{}, 0
	for _, r := range s.Runs {
		if setting, _ := s.Plan.Setting(r.Setting); r.State == model.RunValid {
			counted[setting.FarEnd()]++
		}
		if r.LostContact {
			lost++
		}
	}
	text, _ := json.Marshal(s.Warnings)
	if lost != 3 || counted[dies] < 2 || s.State != model.SessionDone || !strings.Contains(string(text), "was left out") {
		t.Errorf("%s (%s): %d runs lost, %v, %s", s.State, s.Reason, lost, counted, text)
	}
}

// TestFarEndsChangeOneNearHost: the near end of several far ends is one host, which takes
// settings from one session; what it takes for each run is undone after it.
func TestFarEndsChangeOneNearHost(t *testing.T) {
	t.Parallel()
	r := run(t, pairInLab(t, "rate=50mbit,rtt=2ms", `cut -f3 /proc/sys/net/ipv4/tcp_wmem
$LR run --from "$near" --factor "far=$far,${far}2" --factor near.tcp.send_buffer_max=1MiB,2MiB --blocks 3 -t 200ms --omit 100ms --settle 0s --no-twin --db $DIR/r.db -q
cut -f3 /proc/sys/net/ipv4/tcp_wmem
`))
	if r.code != 0 || !strings.Contains(r.out, "12 changes on near, all undone, verified") || strings.Count(r.out, "4194304") != 2 {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
}
