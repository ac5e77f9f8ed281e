package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/analysis"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/measure/budget"
	"linerate/internal/must"
	"linerate/internal/report"
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
