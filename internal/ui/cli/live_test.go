package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/store/sqlite"
	uilive "linerate/internal/ui/live"
	"linerate/internal/ui/screen"
)

// gate is a writer that blocks until it is opened.
type gate struct {
	mu   sync.Mutex
	text bytes.Buffer
	open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// block returns the end of a block with these outcomes of the settings.
func block(n int, outcomes ...model.Outcome) app.BlockEnded {
	r := analysis.Result{Blocks: n}
	for i, o := range outcomes {
		v := model.Verdict{
			Setting: fmt.Sprintf("level%d", i+1), Baseline: "current", Direction: model.To, Metric: model.Goodput, Outcome: o, Blocks: n, Estimate: 0.1,
			Interval: model.Interval{Low: 0.05, High: 0.15},
		}
		if n < 6 {
			v.Interval.Low, v.Interval.High = model.Bound(math.Inf(-1)), model.Bound(math.Inf(1))
		}
		r.Verdicts = append(r.Verdicts, v, model.Verdict{Setting: v.Setting, Direction: model.To, Metric: model.RTT, Outcome: model.Worse, Blocks: n})
	}
	r.Verdicts = append(r.Verdicts, model.Verdict{Setting: "current (twin)", IsTwin: true, Direction: model.To, Metric: model.Goodput, Blocks: n})
	return app.BlockEnded{Progress: app.Progress{Block: n, MaxBlocks: 20, AtMost: time.Minute}, Result: r}
}

func liveSession(kind model.Kind) model.Session {
	return model.Session{Kind: kind, Plan: model.Plan{
		Baseline: "current", Objective: model.Goodput, Flow: model.Flow{Direction: model.To, Duration: time.Second}, Order: make([][]string, 20),
	}}
}

// TestFirstHour10EstimatesWhileItRuns: after each block every setting's estimate and interval is
// printed, a decision at once and only once, and between blocks, without a terminal, a line every
// few seconds.
func TestFirstHour10EstimatesWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &gate{open: make(chan struct{})}
		close(out.open)
		w := newWorld(t)
		w.Err = out
		l := (&console{Env: w.Env}).newLive(liveSession(model.KindRun))
		said := func() string {
			synctest.Wait()
			defer out.text.Reset()
			return out.String()
		}
		l.observe(app.RunBegan{Progress: app.Progress{Block: 1, MaxBlocks: 20, Position: 1, RunsInBlock: 3, Setting: "level1", Direction: model.To}})
		l.observe(app.Sampled{Progress: app.Progress{Block: 1, MaxBlocks: 20}, Samples: []model.Sample{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}})
		time.Sleep(11 * time.Second)
		if got := said(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "block 1/20  run 1/3  level1 near -> far  900 Mbit/s  measuring  10 s") {
			t.Errorf("after 11 s:\n%s", got)
		}
		l.observe(block(1, model.Undecided, model.Undecided))
		if got := said(); !strings.Contains(got, "block 1/20 done, 0 of 2 comparisons decided") || !strings.Contains(got, "  level2: 11 % higher (no interval yet)\n") || strings.Contains(got, "twin") {
			t.Errorf("after a block:\n%s", got)
		}
		l.observe(block(6, model.Better, model.Undecided))
		want := " decided:\n  level1: 11 % faster, at least 5.1 %; 6 blocks, decided\n so far, against current:\n  level2: 11 % higher (+5 % to +16 %)\n"
		must.Contain(t, said(), want, "a difference that is decided")
		l.observe(block(7, model.Better, model.Undecided))
		got := said()
		must.True(t, !strings.Contains(got, "decided:") && !strings.Contains(got, "level1") && strings.Contains(got, "1 of 2 comparisons decided"), "said twice:\n%s", got)
		l.close()
	})
}

// TestFirstHour10NobodyReads: a caller that reports progress never waits for a blocked terminal
// or pipe, and the output is written once that reads again.
func TestFirstHour10NobodyReads(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			out := &gate{open: make(chan struct{})}
			w := newWorld(t)
			w.Err, w.ErrTerminal = out, terminal
			l := (&console{Env: w.Env}).newLive(liveSession(model.KindRun))
			began := time.Now()
			for n := range 20 {
				time.Sleep(6 * time.Second) // the progress line is stuck in its write
				l.observe(app.RunBegan{Progress: app.Progress{Block: n + 1}})
				l.observe(block(n+1, model.Undecided))
			}
			must.Equal(t, time.Since(began)-2*time.Minute, 0, "waited for whoever reads")
			close(out.open)
			l.close()
			must.Equal(t, strings.Count(out.String(), " done, 0 of 1 comparisons decided"), 20, "of 20 blocks were told")
		})
	}
}

// TestFirstHour10Quiet: --quiet prints none of it.
func TestFirstHour10Quiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := (&console{Env: w.Env, quiet: true}).newLive(liveSession(model.KindRun))
		time.Sleep(time.Minute)
		l.observe(block(6, model.Better))
		l.close()
		must.True(t, w.err.Len() == 0, "%s", w.err.String())
	})
}

// TestNoTimeLeftIsLessThanNothing: the remaining time is never negative, however far beyond the
// plan it is.
func TestNoTimeLeftIsLessThanNothing(t *testing.T) {
	for _, e := range []app.Copying{{Host: "nas", Bytes: 10, Done: 10, Elapsed: 3 * time.Second}, {Host: "nas", Bytes: 10, Done: 12, Elapsed: 3 * time.Second}} {
		line := copyLine(e)
		must.True(t, !strings.Contains(line, "-") && strings.HasSuffix(line, ", 1 s left"), "%+v: %s", e, line)
	}
	for _, share := range []float64{1, 1.5, 4} {
		left := moreTime(app.FolderProgress{Share: share, Elapsed: time.Minute})
		must.True(t, !strings.Contains(left, "-") && left == ", about 0 s more", "%g: %q", share, left)
	}
	must.Equal(t, moreTime(app.FolderProgress{Share: 0.25, Elapsed: time.Minute}), ", about 3 min more")
	must.Equal(t, moreTime(app.FolderProgress{Elapsed: time.Minute}), "")
}

// TestNextStepsOfASearch: the report of a stored search has its next steps in every format: to
// keep what is proven, and to resume an interrupted search.
func TestNextStepsOfASearch(t *testing.T) {
	s := model.Session{ID: "s1", Near: app.ThisMachine}
	rec := tune.Record{Winner: model.Setting{Assignments: []model.Assignment{{Host: model.Far, Knob: "tcp.sack", Value: "on"}}}}
	again := report.Step{What: "see this again", Command: "linerate show s1"}
	on := report.Step{What: "go on", Command: "linerate tune --resume s1"}
	for _, c := range []struct {
		t    report.Tuned
		want []report.Step
		far  string
	}{
		{far: "lab:lan", t: report.Tuned{Proven: true, Proof: "p1", Next: again}, want: []report.Step{
			{What: "nothing can be kept in a lab, which ends with its command; on your own hosts", Command: "linerate tune HOST"}}},
		{t: report.Tuned{Proven: true, Proof: "p1", Next: again}, want: []report.Step{
			{What: "keep it until the next start", Command: "linerate set far.tcp.sack=on --both root@nas"},
			{What: "keep it for good", Command: "linerate keep p1 root@nas --both"}}},
		{t: report.Tuned{Proven: true, Proof: "p1", Open: []string{"latency is not decided"}, Next: again}, want: []report.Step{ // keep refuses it unless the user insists
			{What: "keep it until the next start", Command: "linerate set far.tcp.sack=on --both root@nas"},
			{What: "keep it for good", Command: "linerate keep p1 root@nas --both --despite-guards"}}},
		{t: report.Tuned{Next: on}, want: []report.Step{on}},
		{t: report.Tuned{Next: again}},
	} {
		s.Far = cmp.Or(c.far, "root@nas")
		must.Same(t, nextSteps(c.t, rec, s), c.want, "%+v", c.t)
	}
}

// TestServeScreenKeeps: messages do not overwrite a screen that has the terminal; they are shown
// on it, and printed when it is gone, but only the last ones of a long time.
func TestServeScreenKeeps(t *testing.T) {
	var out strings.Builder
	line := screen.New(&out)
	w := &serveScreen{state: uilive.NewServer(time.Now, nil), line: line}
	line.Line("0/8")
	out.Reset()
	must.True(t, !w.keep("before"), "keeps a line where there is no screen")
	release := w.hold()
	line.Line("1/8")
	fmt.Fprint(line, "half ")
	fmt.Fprint(line, "a line\n")
	must.True(t, w.keep("a visit\x1b[2J"), "does not keep a line beside the screen")
	must.Equal(t, out.String(), screen.Redraw, "written over the screen")
	text := w.state.View(uilive.Size{Columns: 80, Rows: 24})
	must.True(t, strings.Contains(text, "half a line") && !strings.Contains(text, "a visit"), "on the screen:\n%s", text)
	out.Reset()
	release()
	must.Equal(t, out.String(), "1/8"+screen.Redraw+"half a line\na visit?[2J\n1/8")

	release = w.hold()
	for i := range 10 * keptServed {
		w.keep(fmt.Sprint(i))
	}
	out.Reset()
	release()
	all := strings.Split(strings.TrimSuffix(out.String(), "\n1/8"), "\n")
	left, _, _ := strings.Cut(strings.TrimPrefix(all[0], "1/8"+screen.Redraw), " lines before these")
	n := len(all) - 1
	must.True(t, n <= keptServed && left == fmt.Sprint(10*keptServed-n) && all[n] == fmt.Sprint(10*keptServed-1), "%d kept, %s left out, the last is %q", n, left, all[n])
}

// TestAllowances: used and refused amounts are shown, with their limits.
func TestAllowances(t *testing.T) {
	b := budget.New(budget.Config{
		Server:       budget.Limits{Sessions: 8, Memory: 1 << 30},
		AllAnonymous: budget.Limits{Sessions: 4}, Anonymous: budget.Part{Source: budget.Limits{Sessions: 2, Memory: 64 << 20}}, Window: 24 * time.Hour,
	})
	must.Same(t, allowances(b.Usage()), []uilive.Allowance{{Name: "sessions", Used: "0", Limit: "8", Source: "2"}}, "nothing")
	s := must.Get(b.Open(netip.MustParseAddr("127.0.0.1"), ""))(t)
	must.Get(s.Take(budget.Amounts{Memory: 32 << 20}))(t)
	_ = s.Spend(1 << 30)
	must.Need(t, must.Err(s.Take(budget.Amounts{Memory: 64 << 20})) != nil, "more than there is")
	want := []uilive.Allowance{
		{Name: "sessions", Used: "1", Limit: "8", Source: "2"}, {Name: "descriptors", Used: "1", Limit: "no limit", Source: "no limit"}, {Name: "memory", Used: "32 MiB", Limit: "1 GiB", Source: "64 MiB", Refused: 1},
		{Name: "sent in 24 h", Used: "1 GiB", Limit: "no limit", Source: "no limit"},
	}
	must.Same(t, allowances(b.Usage()), want)
}

// TestFixedLimitIsNamed: a server whose --limit-source gives one address more than a run without
// a key ever gets says at its start that no option raises the latter.
func TestFixedLimitIsNamed(t *testing.T) {
	b := budget.New(budget.Config{
		Server: budget.Limits{Sessions: 8}, AllAnonymous: budget.Limits{Sessions: 4, UDP: 2e9},
		Anonymous: budget.Part{Source: budget.Limits{UDP: 1e9}},
	})
	var out bytes.Buffer
	(&console{Env: Env{Err: &out}}).printBudget(b.Usage())
	must.Contain(t, out.String(), "to one address without a key: 1 Gbit/s of UDP")
	must.Contain(t, out.String(), "to one run without a key: 1 min, 16 streams, 100 Mbit/s of UDP in each direction; no option raises that")
}

func TestStatusText(t *testing.T) {
	b := budget.New(budget.Config{Server: budget.Limits{Sessions: 8, Memory: 1 << 30}})
	must.Equal(t, statusText(b.Usage()), "0/8 sessions", "nothing")
	s := must.Get(b.Open(netip.MustParseAddr("127.0.0.1"), ""))(t)
	must.Get(s.Take(budget.Amounts{Memory: 64 << 20, UDP: 1e8}))(t)
	_ = s.Spend(1 << 30)
	must.Need(t, must.Err(s.Take(budget.Amounts{Memory: 2 << 30})) != nil, "more than there is")
	must.Equal(t, statusText(b.Usage()), "1/8 sessions, 64 MiB memory, 100 Mbit/s UDP, 1 GiB sent, 1 source, 1 refused")
	must.Equal(t, shortened("ÄBCDEF", 3), "ÄBC", "shortened")
}

// article returns the name of a profile with the settings of one seed article.
func article(name string) string { return filepath.Join("testdata", "articles", name+".yaml") }

// exported runs export and returns the files by path, and its messages.
func exported(t *testing.T, args ...string) (map[string]string, string) {
	t.Helper()
	w := newWorld(t)
	code := w.main(t, append([]string{"export", "--json"}, args...)...)
	must.Need(t, code == exitOK, "export %v: exit code %d\n%s", args, code, w.err.String())
	var doc exportDoc
	must.Do(t, json.Unmarshal(w.out.Bytes(), &doc))
	files := map[string]string{}
	for _, f := range doc.Files {
		files[f.Path] = f.Content
	}
	for _, o := range doc.Omitted {
		must.Contain(t, w.err.String(), "left out: "+string(o.Knob)+"="+o.Value+": "+o.Reason, "stderr does not say that %s is left out", o.Knob)
	}
	return files, w.err.String()
}

// want checks that a file has these lines.
func want(t *testing.T, files map[string]string, path string, lines ...string) {
	t.Helper()
	text, ok := files[path]
	must.Need(t, ok, "no file %s in %d files", path, len(files))
	for _, l := range lines {
		must.Contain(t, strings.ReplaceAll(text, "\r\n", "\n"), l+"\n", "%s has no line %q: %s", path, l, text)
	}
}

// TestArticleGigabit: export writes the article's lines again, except for those that no current
// system has, which the catalogue translates.
func TestArticleGigabit(t *testing.T) {
	name := article("gigabit-freebsd-xp")
	files, _ := exported(t, "--for", "freebsd", "--role", "near", "--interface", "em0", name)
	want(t, files, "/etc/start_if.em0", "ifconfig em0 mtu 9000 || :", "ifconfig em0 polling || :")
	want(t, files, "/etc/sysctl.conf", "kern.ipc.maxsockbuf=1048576", "net.inet.tcp.sendspace=262144", "net.inet.tcp.recvspace=262144", "net.isr.dispatch=direct")
	want(t, files, "/boot/loader.conf", `kern.ipc.nmbclusters="30720"`)
	s := files["/etc/sysctl.conf"]
	must.True(t, strings.Index(s, "maxsockbuf=") <= strings.Index(s, "sendspace="), "a buffer is set before its limit")
	files, said := exported(t, "--for", "windows-powershell", "--role", "far", "--interface", "Ethernet", name)
	want(t, files, "linerate.ps1", "Set-NetAdapterAdvancedProperty -Name 'Ethernet' -RegistryKeyword '*JumboPacket' -RegistryValue '9014'",
		"Set-NetTCPSetting -SettingName Internet -AutoTuningLevelLocal 'Restricted'", "Set-NetTCPSetting -SettingName Internet -Timestamps 'Enabled'")
	must.Contain(t, said, "restarts the adapter", "stderr does not warn")
	w := newWorld(t)
	code := w.main(t, "export", "--for", "windows-reg", "--role", "far", "--interface", "Ethernet", "--adapter-key", "0007", "--output", t.TempDir(), name)
	must.True(t, code == exitOK, "exit code %d\n%s", code, w.err.String())
	for dead, instead := range map[string]model.KnobID{
		"kern.polling.enable": "polling", "net.isr.enable": "netisr.dispatch", "net.inet.tcp.inflight_enable": "tcp.congestion_control",
		"GlobalMaxTcpWindowSize": "tcp.autotune_level", "Tcp1323Opts": "tcp.timestamps", "SackOpts": "",
	} {
		e, ok := knob.NewIndex().Explain(dead)
		must.True(t, ok && len(e.Dead) != 0 && (instead == "" || slices.Contains(e.Replaced(), instead)), "%s is not known as dead, with %q instead", dead, instead)
	}
}

func TestArticleMac(t *testing.T) {
	name := article("mtu-and-buffers-mac")
	files, said := exported(t, "--for", "macos", "--interface", "en0", name)
	want(t, files, "/Library/LaunchDaemons/linerate.plist", "    <string>net.inet.tcp.sendspace=524288</string>", "    <string>net.inet.tcp.recvspace=524288</string>")
	must.Contain(t, said, "then run: networksetup -setMTU en0 1500", "the MTU is dropped")
	files, _ = exported(t, "--for", "freebsd", "--interface", "em0", name)
	want(t, files, "/etc/sysctl.conf", "net.inet.tcp.sendspace=524288", "net.inet.tcp.recvspace=524288")
	want(t, files, "/etc/start_if.em0", "ifconfig em0 mtu 1500 || :")
	e, ok := knob.NewIndex().Explain("/etc/sysctl.conf")
	must.True(t, ok && strings.Contains(e.Dead[0].Now, "not read any more"), "that macOS does not read the article's file is not known")
}

func TestArticleLinux(t *testing.T) {
	name := article("crossed-cable-linux")
	for format, own := range map[string]struct{ path, line string }{
		"systemd-networkd": {"/etc/systemd/network/10-linerate-eth0.link", "MTUBytes=9000"},
		"netplan":          {"/etc/netplan/zz-linerate.yaml", "#      mtu: 9000"},
		"networkmanager":   {"/etc/NetworkManager/conf.d/zz-linerate-eth0.conf", "ethernet.mtu=9000"},
		"ifupdown":         {"/etc/network/interfaces.d/linerate", "    pre-up ip link set dev eth0 mtu 9000 || true"},
	} {
		files, _ := exported(t, "--for", format, "--interface", "eth0", name)
		want(t, files, own.path, own.line)
		want(t, files, "/etc/sysctl.d/zz-linerate.conf", "net.core.rmem_max = 262144", "net.core.wmem_max = 262144", "net.core.rmem_default = 262144", "net.core.wmem_default = 262144")
	}
	files, said := exported(t, "--for", "linux-sysctl", "--interface", "eth0", name)
	must.True(t, len(files) == 1 && strings.Contains(said, "left out: link.mtu=9000: not a sysctl"), "%v\n%s", files, said)
	files, _ = exported(t, "--for", "ansible", "--interface", "eth0", name)
	want(t, files, "linerate.yml", "      net.core.rmem_max = 262144", "      MTUBytes=9000")
}

// TestArticleVirtio: the settings of test 3 conflict, which the article could not know; on
// request they are written anyway.
func TestArticleVirtio(t *testing.T) {
	files, _ := exported(t, "--for", "freebsd", article("virtio-test2"))
	want(t, files, "/etc/sysctl.conf", "kern.ipc.maxsockbuf=4000000", "net.inet.tcp.sendbuf_max=2097152", "net.inet.tcp.recvbuf_max=2097152")
	w := newWorld(t)
	code := w.main(t, "export", "--for", "freebsd", article("virtio-test3"))
	must.True(t, code == exitUsage && strings.Contains(w.err.String(), "C-02") && w.out.Len() == 0, "exit code %d\n%s%s", code, w.out.String(), w.err.String())
	files, said := exported(t, "--for", "freebsd", "--anyway", article("virtio-test3"))
	want(t, files, "/etc/sysctl.conf", "kern.ipc.maxsockbuf=4000000", "net.inet.tcp.sendbuf_max=16777216", "net.inet.tcp.recvbuf_max=16777216")
	must.True(t, strings.Contains(said, "C-02") && strings.Contains(files["/etc/sysctl.conf"], "C-02"), "neither stderr nor the file says what is wrong:\n%s", said)
}

func TestArticleSlowPC(t *testing.T) {
	files, _ := exported(t, "--for", "freebsd", "--interface", "xl0", article("slow-pc-fast-nic"))
	want(t, files, "/etc/start_if.xl0", "ifconfig xl0 polling || :", "ifconfig xl0 media 10baseT/UTP || :", "# title: 遅いPCで速いNIC")
	files, said := exported(t, "--for", "systemd-networkd", "--interface", "eth0", article("slow-pc-fast-nic"))
	want(t, files, "/etc/systemd/network/10-linerate-eth0.link", "BitsPerSecond=10M", "Duplex=half")
	must.True(t, strings.Contains(said, "left out: polling=1: linux has no such setting") && strings.Contains(said, "note: the settings were tried on freebsd, and these files are for linux"), "%s", said)
}

// stored adds a session with a decided setting to a new store.
func stored(t *testing.T, w *world) model.Session {
	t.Helper()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	s := model.Session{
		ID: "20261121T130000-abcd", Kind: model.KindRun, Title: "tall buffers", Near: "this machine", Far: "nas", Created: at, Ended: at.Add(time.Hour), State: model.SessionDone,
		Plan: model.Plan{
			Baseline: "current", Directions: []model.Direction{model.To},
			Settings: []model.Setting{{Name: "current"}, {Name: "4MiB", Assignments: []model.Assignment{
				{Host: model.Far, Knob: "tcp.recv_buffer_max", Value: "4194304"}, {Knob: "nodelay", Value: "1"},
			}}, {Name: "worse", Assignments: []model.Assignment{{Host: model.Near, Knob: "tcp.sack", Value: "0"}}}},
		},
		Hosts: []model.HostFacts{{Host: model.Near, OS: "linux"}, {
			Host: model.Far, OS: "linux", Kernel: fact.Known("6.18", "uname"), LinkRate: fact.Known(units.BitRate(1e9), "sysfs"), MTU: fact.Known(1500, "sysfs"),
		}},
		Changes:  []model.Change{{Run: 1, Host: model.Far, Knob: "tcp.recv_buffer_max", Native: "net.ipv4.tcp_rmem", Old: "8192\t262144\t65536", New: "8192 262144 4194304", State: model.ChangeUndone}},
		Verdicts: []model.Verdict{{Setting: "4MiB", Baseline: "current", Direction: model.To, Metric: model.Goodput, Outcome: model.Better, Blocks: 6, Estimate: 0.113, Interval: model.Interval{Low: 0.1, High: 0.13, Confidence: 0.95}}},
	}
	st := must.Get(sqlite.Open(t.Context(), w.vars["LINERATE_DB"]))(t)
	defer st.Close()
	must.Do(t, st.CreateSession(t.Context(), s))
	must.Do(t, st.SetChanges(t.Context(), s.ID, s.Changes))
	must.Do(t, st.UpdateSession(t.Context(), s))
	return s
}

func TestProfileOfSession(t *testing.T) {
	w := newWorld(t)
	stored(t, w)
	name := filepath.Join(t.TempDir(), "tall.yaml")
	if code := w.main(t, "profile", "save", "last", name); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, w.err.String())
	}
	must.True(t, strings.Contains(w.err.String(), "left out: nodelay=1 belongs to the test traffic") && !strings.Contains(w.err.String(), "warning"), "%s", w.err.String())
	must.True(t, w.main(t, "profile", "save", "last", name) != exitOK, "a file is written over")
	if code := w.main(t, "profile", "show", name); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, w.err.String())
	}
	for _, s := range []string{"tall buffers", "receiver, tried on linux, 6.18, 1 Gbit/s, MTU 1500", "tcp.recv_buffer_max  4 MiB", "goodput to: better, 12.0 % higher (+10.5 % to +13.9 % at 95 %), 6 blocks",
		`session 20261121T130000-abcd, setting "4MiB" against "current", 2026-11-21`} {
		must.Contain(t, w.out.String(), s)
	}
	// A session and its profile give the same files, with the other numbers of the line as they
	// were on the host.
	code := w.main(t, "export", "--for", "linux-sysctl", "last")
	direct := w.out.String()
	must.True(t, code == exitOK && strings.Contains(direct, "net.ipv4.tcp_rmem = 8192 262144 4194304\n"), "exit code %d\n%s", code, direct)
	w.main(t, "export", "--for", "linux-sysctl", name)
	must.True(t, w.out.String() == direct, "the session gives\n%s\nand the profile\n%s", direct, w.out.String())
	if code := w.main(t, "profile", "save", "last", filepath.Join(t.TempDir(), "x"), "--setting", "worse"); code != exitOK || !strings.Contains(w.err.String(), `warning: no verdict of the session says that "worse" is better`) {
		t.Errorf("exit code %d\n%s", code, w.err.String())
	}
	for _, one := range []string{"current", "no such"} {
		code := w.main(t, "profile", "save", "last", "-", "--setting", one)
		must.True(t, code == exitUsage && w.out.Len() == 0, "%s: exit code %d\n%s", one, code, w.err.String())
	}
}

func TestExportWritesTree(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t)
	args := []string{"export", "--for", "netplan", "--interface", "eth0", "--output", dir, article("crossed-cable-linux")}
	if code := w.main(t, args...); code != exitOK || w.out.Len() > 0 {
		t.Fatalf("exit code %d\n%s%s", code, w.out.String(), w.err.String())
	}
	info := must.Get(os.Stat(filepath.Join(dir, "etc/netplan/zz-linerate.yaml")))(t)
	must.True(t, info.Mode().Perm()&^0o600 == 0 || info.Mode().Perm() == fs.FileMode(0o666), "%v", info)
	code := w.main(t, args...)
	must.True(t, code == exitFailed && strings.Contains(w.err.String(), "nothing was written"), "exit code %d\n%s", code, w.err.String())
}

// TestArchiveAndNotes copies sessions from one machine to another: unchanged, with notes and
// samples, and only once. Existing sessions stay; a damaged file imports nothing.
func TestArchiveAndNotes(t *testing.T) {
	here, there := newWorld(t), newWorld(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	there.Now = func() time.Time { return now }
	st := must.Get(openStoreAt(t.Context(), here.vars["LINERATE_DB"]))(t)
	for i := range 3 {
		s := model.Session{ID: fmt.Sprintf("s%d", i), Kind: model.KindTest, Near: "desk", Far: "nas", State: model.SessionDone, Created: now.Add(-time.Duration(i) * time.Hour)}
		must.Do(t, st.CreateSession(t.Context(), s))
		run := model.Run{Number: 1, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}}
		must.Do(t, st.AddRun(t.Context(), s.ID, run, []model.Sample{{Host: model.Far, Metric: model.Goodput, Value: 0.1 + float64(i)}}, nil))
	}
	must.Do(t, st.Close())
	dir := t.TempDir()
	all, one, damaged := filepath.Join(dir, "all.linerate"), filepath.Join(dir, "one.linerate"), filepath.Join(dir, "damaged.linerate")
	do := func(w *world, code int, says string, args ...string) {
		t.Helper()
		must.Equal(t, w.main(t, args...), code, "%q: exit code", args)
		must.Contain(t, w.out.String()+w.err.String(), says, "%q", args)
	}
	do(here, 0, "note: after the new cable", "annotate", "s1", "after the new cable")
	do(here, 0, "  note: after the new cable", "show", "s1")
	do(here, 0, `"note": "after the new cable"`, "show", "s1", "--json")
	do(here, 0, "| after the new cable", "report", "s1", "--format", "markdown")
	do(here, 0, "s1 ", "list", "--text", "NEW cable")
	do(here, 0, "no such sessions", "list", "--text", "no such text")
	do(here, 2, "at most 4096 bytes", "annotate", "s1", strings.Repeat("x", 4097))
	do(here, 0, "wrote 3 sessions to ", "export", "--archive", all)
	do(here, 0, `"sessions":`, "export", "--archive", one, "s2", "--json")
	do(here, 1, "move that file away", "export", "--archive", all)
	do(here, 1, "take a session of linerate test", "report", "s1", "--format", "flent", "--force", "--output", all) // which replaces nothing
	do(here, 6, "not found", "export", "--archive", filepath.Join(dir, "none"), "nosuch")
	do(there, 0, "1 session of 1 from ", "import", one)
	changed := bytes.Clone(must.Get(os.ReadFile(all))(t))
	changed[len(changed)-20] ^= 1
	must.Do(t, os.WriteFile(damaged, changed, 0o600))
	do(there, 2, "the archive is damaged", "import", damaged)
	do(there, 0, "s2 ", "list")
	must.True(t, !strings.Contains(there.out.String(), "s0 "), "of a damaged archive is kept:\n%s", there.out.String())
	do(there, 2, "import it alone", "import", all, "--title", "x")
	do(there, 0, "s2 is here already, and was left as it is\n2 sessions of 3 from ", "import", all)
	do(there, 0, "0 sessions of 3 from ", "import", all)
	for _, id := range []string{"s0", "s1", "s2"} {
		for _, more := range [][]string{{"--json=full", "--samples"}, nil} {
			args := append([]string{"show", id}, more...)
			do(here, 0, "", args...)
			do(there, 0, "", args...)
			must.True(t, here.out.String() == there.out.String() && here.out.Len() != 0, "%q is here\n%s\nand there\n%s", args, here.out.String(), there.out.String())
		}
	}
	do(here, 0, "removed 1 session", "delete", "s1", "--yes")
	do(here, 0, "1 session of 3", "import", all) // as from a backup
	do(here, 0, "  note: after the new cable", "show", "s1")
	do(here, 0, "s1 ", "annotate", "s1", "")
	do(here, 0, "no such sessions", "list", "--text", "new cable")
}
