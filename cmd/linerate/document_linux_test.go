package main

import (
	"encoding/base64"
	"errors"
	"html"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/referee"
	"linerate/internal/must"
	"linerate/internal/store/archive"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
)

// sampled writes an archive of one session with five runs and this many samples, and returns its
// store's size in bytes.
func sampled(t testing.TB, path string, samples int) int64 {
	t.Helper()
	db := filepath.Join(t.TempDir(), "from.db")
	st := must.Get(sqlite.Open(t.Context(), db))(t)
	defer st.Close()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := model.Session{
		ID: "20261121T120000-many", Kind: model.KindTest, Near: "this machine", Far: "nas", State: model.SessionDone, Created: at, Ended: at.Add(time.Hour),
		Plan: model.Plan{Settings: []model.Setting{{Name: "as-is"}}, Baseline: "as-is", Directions: []model.Direction{model.To}},
	}
	must.Do(t, st.CreateSession(t.Context(), s))
	rng := rand.New(rand.NewPCG(12, 6))
	const runs = 5
	for n := 1; n <= runs; n++ {
		all := storetest.Seconds(rng, samples/runs/56)[:samples/runs]
		r := model.Run{Number: n, Block: n, Setting: "as-is", Started: at, Ended: at.Add(time.Hour), State: model.RunValid,
			Flow:   model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Hour, Interval: time.Second},
			Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9.3e8}}}
		must.Do(t, st.AddRun(t.Context(), s.ID, r, all, nil))
	}
	f := must.Get(os.Create(path))(t)
	must.Do(t, errors.Join(archive.Write(t.Context(), f, st, nil), f.Close(), st.Close()))
	return must.Get(os.Stat(db))(t).Size()
}

// TestSamplesOfAReport: the page of a report contains all samples of a session, even if they are
// too many for its JSON: as an archive that can be imported again. TestTruthOfAMillionSamples
// does it with a million.
func TestSamplesOfAReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, page, db := filepath.Join(dir, "from.linerate"), filepath.Join(dir, "page.html"), filepath.Join(dir, "r.db")
	sampled(t, from, 5*4480)
	succeed(t, "import", from, "--db", db)
	succeed(t, "report", "last", "-o", page, "--db", db)
	attachedAgain(t, page, 5*4480)
}

// attachedAgain imports the archive in a page, and requires all its samples.
func attachedAgain(t testing.TB, page string, samples int) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	m := regexp.MustCompile(`href="data:application/octet-stream;base64,([^"]+)"`).FindSubmatch(text)
	must.Need(t, m != nil && len(text) <= 8<<20, "no archive in a page of %d bytes", len(text))
	// As a browser does: the template escapes some base64 characters.
	data, err := base64.StdEncoding.DecodeString(html.UnescapeString(string(m[1])))
	from := filepath.Join(t.TempDir(), "again.linerate")
	must.Do(t, errors.Join(err, os.WriteFile(from, data, 0o600)))
	f := must.Get(os.Open(from))(t)
	defer f.Close()
	a := must.Get(archive.Open(t.Context(), f))(t)
	defer a.Close()
	n := 0
	for run := 1; run <= 5; run++ {
		n += len(must.Get(a.Samples(t.Context(), "last", run))(t))
	}
	must.Equal(t, n, samples, "samples are in the page")
}

// intervalLines matches the lines that scripts for iperf3 look for. Lines of an idle interval
// have no prefix before the unit, and end two columns earlier.
var intervalLines = regexp.MustCompile(`(?m)^\[(SUM|[ \d]{3})\]( +)\d+\.\d\d-\d+\.\d\d +sec +[\d.]+ [KMG]Bytes +[\d.]+ [KMG]bits/sec`)

// columns counts the interval lines in out by what they are of, and returns the columns at which
// the unit of the rate ends.
func columns(out string) (of map[string]int, ends map[int]bool) {
	of, ends = map[string]int{}, map[int]bool{}
	for _, m := range intervalLines.FindAllStringSubmatch(out, -1) {
		of[strings.TrimSpace(m[1])]++
		ends[len(m[0])] = true
	}
	return of, ends
}

// heads returns the headers of the lines in out, without trailing spaces.
func heads(out string) (all []string) {
	for line := range strings.Lines(out) {
		if line = strings.TrimRight(line, " \n"); strings.HasPrefix(line, "[ ID]") && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// idle waits until the iperf3 server listens and has ended the previous test.
func idle(t testing.TB, n *netns) {
	t.Helper()
	must.Until(t, "iperf3 listens and measures nothing", func() bool {
		sockets := ip(t, "netns", "exec", n.far, "ss", "-Htan")
		return strings.Contains(sockets, ":5201") && !strings.Contains(sockets, "ESTAB") && !strings.Contains(sockets, "CLOSE-WAIT")
	})
}

// TestFirstHour18AsIperf3 compares the lines of intervals, connections and their sum with those
// of iperf3 itself, with an agent and with an iperf3 server at the far end: the same columns
// and headers, for TCP and UDP.
func TestFirstHour18AsIperf3(t *testing.T) {
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
			// At least one interval and both ends' totals: a busy machine may add one.
			must.True(t, (name != "TCP" || min(wantLines["SUM"], lines["SUM"], lines["1"], lines["2"]) >= 3 && lines["SUM"] == lines["1"]) && (name != "UDP" || lines["1"] >= 3), "%s beside %s: lines %v, iperf3 has %v\n%s\n%s", name, whose, lines, wantLines, got, want)
			must.True(t, len(ends) == 1 && maps.Equal(ends, wantEnds), "%s beside %s: columns end at %v, iperf3's at %v\n%s\n%s", name, whose, ends, wantEnds, got, want)
			for _, head := range heads(got) {
				must.True(t, slices.Contains(heads(want), head), "%s beside %s: header\n%s\niperf3 has no such header:\n%s", name, whose, head, want)
			}
			has(t, "whose numbers they are", got, "to ", "sender", "receiver")
		}
		must.True(t, name != "TCP" || regexp.MustCompile(`(?m)^\[  1\] .*/sec +\d+ +[\d.]+ [KM]Bytes$`).MatchString(all["a server of iperf3"]), "no segments sent again and no window:\n%s", all["a server of iperf3"])
	}
	r := run(t, n.inside(t, "near", "test", n.agent("far"), "--to", "-P", "2", "-t", "0.2", "--omit", "0s", "--idle", "0s", "-q", "--json"))
	must.True(t, r.code == 0 && !strings.Contains(r.out, "[SUM]"), "exit code %d, one document with --json:\n%.300s", r.code, r.out)
}

// sessionDocument is the part of linerate/session/v1 that these tests read.
type sessionDocument struct {
	Detail  string `json:"detail"`
	Session struct {
		Hosts []struct {
			Settings *struct {
				Known   int            `json:"known"`
				Unknown map[string]int `json:"unknown"`
			} `json:"settings"`
			Knobs map[string]struct {
				Value   *string `json:"value"`
				Source  string  `json:"source"`
				Unknown string  `json:"unknown"`
				Code    string  `json:"code"`
			} `json:"knobs"`
			Machine *struct{} `json:"machine"`
			Route   *struct{} `json:"route"`
			NICs    []struct {
				Name string `json:"name"`
			} `json:"nics"`
		} `json:"hosts"`
		Runs []struct {
			Ends []struct {
				Counters []struct{} `json:"counters"`
			} `json:"ends"`
		} `json:"runs"`
	} `json:"session"`
}

// TestDocumentOfAQuickTest: the document of a quick test is readable, and the full one of the
// same session has every fact, from the store.
func TestDocumentOfAQuickTest(t *testing.T) {
	labBeside(t)
	db := t.TempDir() + "/r.db"
	short := succeed(t, "--db", db, "test", "-q", "-t", "200ms", "--omit", "0s", "--idle", "0s", "lab:rate=20mbit,rtt=2ms", "--json").out
	whole := succeed(t, "--db", db, "show", "last", "--json=full").out
	t.Logf("%d bytes in brief, %d in full", len(short), len(whole))
	must.True(t, len(short) < 15_000, "%d bytes:\n%s", len(short), short)
	for _, text := range []string{short, whole} {
		must.OK(t, validate("linerate/session/v1", text))
	}
	brief, full := decode[sessionDocument](t, short), decode[sessionDocument](t, whole)
	must.Need(t, brief.Detail == "brief" && full.Detail == "full" && len(brief.Session.Hosts) == 2 && len(full.Session.Hosts) == 2, "%+v", brief)
	ofHosts := lists.Count(knob.Catalogue(), func(k knob.Knob) bool { return k.Scope != knob.ScopeFlow })
	for i, h := range full.Session.Hosts {
		counts := brief.Session.Hosts[i].Settings
		must.Need(t, counts != nil && h.Settings == nil && h.Machine != nil && h.Route != nil && len(h.NICs) != 0 && len(h.Knobs) == ofHosts, "host %d: %d of %d settings, %d interfaces; in brief %+v", i, len(h.Knobs), ofHosts, len(h.NICs), counts)
		known, unknown := 0, map[string]int{}
		for id, v := range h.Knobs {
			switch {
			case v.Value != nil && v.Source != "":
				known++
			case v.Value == nil && v.Unknown != "" && v.Code != "" && v.Code != string(knob.OtherReason):
				unknown[v.Code]++
			default:
				t.Errorf("%s: %+v", id, v)
			}
		}
		must.True(t, known == counts.Known && known >= 20 && len(unknown) == len(counts.Unknown), "host %d: %d known in full, %d in brief; unknown %v and %v", i, known, counts.Known, unknown, counts.Unknown)
		for why, n := range unknown {
			must.True(t, counts.Unknown[why] == n, "host %d: %s: %d in full, %d in brief", i, why, n, counts.Unknown[why])
		}
		v := brief.Session.Hosts[i].Knobs["tcp.congestion_control"]
		must.True(t, v.Value != nil && len(brief.Session.Hosts[i].Knobs) <= 10, "host %d in brief: %+v", i, brief.Session.Hosts[i].Knobs)
	}
	for i, r := range full.Session.Runs {
		must.True(t, len(r.Ends) == 2 && len(r.Ends[0].Counters) != 0 && len(brief.Session.Runs[i].Ends) == 0, "run %d: %d ends, %d in brief", i, len(r.Ends), len(brief.Session.Runs[i].Ends))
	}
}
