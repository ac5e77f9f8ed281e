package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/ui/config"
)

// TestExactlySoManyBlocks: a plan has as many blocks as were asked for, those that
// compare the baseline with itself among them, or is refused with how many it can have.
func TestExactlySoManyBlocks(t *testing.T) {
	const (
		one    = "{knob: window, levels: [64KiB]}"
		two    = "{knob: window, levels: [64KiB, 1MiB]}"
		grid   = two + ", {knob: streams, levels: [1, 2]}"
		many   = "{knob: congestion, levels: [a, b, c, d, e, f, g]}"
		some   = "incomplete: true\n"
		refuse = 0
	)
	for _, c := range []struct {
		factors, blocks string
		want            int
	}{
		{two, "blocks: 1", 1}, {two, "blocks: 2", 2}, {two, "blocks: 6", 6}, {two, "max_blocks: 10", 10},
		{one, "blocks: 1", 1}, {one, "blocks: 5", 5}, {one, "blocks: 6", 6}, {one, "blocks: 8", 8}, {one, "blocks: 20", 20}, {one, "max_blocks: 12", 12},
		{grid, "blocks: 1", 1}, {grid, "blocks: 6", 6}, {grid, "max_blocks: 10", 10},
		{many, "blocks: 8", 8}, {many, some + "blocks: 7", 7}, {many, some + "blocks: 8", refuse}, {many, some + "blocks: 14", 14},
	} {
		text := fmt.Sprintf("far: lab:lan\nfactors: [%s]\n%s\n", c.factors, c.blocks)
		file, err := config.Parse("plan.yaml", []byte(text), knobChecker{}, app.Env{}.Kinds())
		must.Dof(t, err, "%s", text)
		file.Directions, file.Flow = []model.Direction{model.To}, model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 1, Duration: time.Second}
		p, err := question{File: file}.plan(fact.Unknown[time.Duration]("not measured"))
		switch {
		case c.want == refuse:
			must.True(t, exitCode(err) == exitUsage && strings.Contains(err.Error(), "this plan has 7 or 21") && strings.Contains(fault.HintOf(err), "each block holds"), "%s%d blocks, %v (%s)", text, len(p.Order), err, fault.HintOf(err))
		case err != nil || len(p.Order) != c.want:
			t.Errorf("%s%d blocks, want %d, %v", text, len(p.Order), c.want, err)
		case c.factors == one && (plan.Comparisons(p) != min(c.want, max(c.want-4, 6)) || p.MaxBlocks != plan.Comparisons(p)):
			t.Errorf("%s%d of %d blocks hold the candidate", text, plan.Comparisons(p), c.want)
		}
	}
}

// TestRequestsFactor: how many requests are due is a factor of plan files, and what a
// level says arrives in the flow of its runs.
func TestRequestsFactor(t *testing.T) {
	kinds := app.Env{}.Kinds()
	text := "far: nas\nflow: {engine: reqresp, block: 64, requests: 50}\nfactors: [{knob: requests, levels: [500/s, 0]}]\n"
	file := must.Get(config.Parse("plan.yaml", []byte(text), knobChecker{knob.NewIndex(), kinds, nil}, kinds))(t)
	settings, _ := file.Settings()
	must.Need(t, len(settings) == 3, "settings %+v", settings)
	for i, rate := range []float64{50, 500, 0} {
		flow, err := knob.WithSetting(file.Complete().Flow, settings[i], kinds...)
		got, ok := requests.Of(flow)
		must.True(t, err == nil && ok && got.Rate == rate, "%s: %v requests per second, %v; want %v", settings[i].Name, got.Rate, err, rate)
	}
}

// TestDataOfAResumedSession: the budget of data may be given anew with more blocks, and
// with them only.
func TestDataOfAResumedSession(t *testing.T) {
	for _, c := range []struct {
		flags string
		bad   bool
	}{{"data", true}, {"data max-blocks", false}, {"margin max-blocks", true}} {
		err := onlyResume(func(flag string) bool { return strings.Contains(" "+c.flags+" ", " "+flag+" ") })
		must.Equal(t, (err != nil), c.bad, "%s: %v", c.flags, err)
	}
}

// TestCopyProgress: of a copy that takes longer than two seconds it is said how much is
// done, how fast that goes and how long it will take; a short one is one line.
func TestCopyProgress(t *testing.T) {
	run := func(terminal bool, took time.Duration) string {
		var out strings.Builder
		a := &console{Env: Env{Err: &out, ErrTerminal: terminal, Getenv: func(string) string { return "" }, Width: func() int { return 80 }}}
		const bytes, steps = 10 << 20, 40
		for i := range steps + 1 {
			a.copying(app.Copying{Host: "nas", Done: bytes / steps * i, Bytes: bytes, Elapsed: took / steps * time.Duration(i)})
		}
		return out.String()
	}
	for _, terminal := range []bool{false, true} {
		must.Equal(t, run(terminal, time.Second), "copying linerate to nas (10 MiB)\n", "a short copy")
		long := run(terminal, 40*time.Second)
		for _, want := range []string{"nas (10 MiB)\n", "of 10 MiB, ", "Mbit/s, ", "s left"} {
			must.Contain(t, long, want, "does not say")
		}
		n := strings.Count(long, "\n")
		must.True(t, (!terminal || n == 1) && (terminal || n >= 4 && n <= 12), "%d lines: %q", n, long)
	}
}
