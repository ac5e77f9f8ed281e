package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// overlaid parses args as the flags of a flow and lays them over flow, of which
// the keys in has came from a plan file.
func overlaid(t *testing.T, flow model.Flow, has []string, args ...string) (model.Flow, faults) {
	t.Helper()
	var f flowFlags
	fl := pflag.NewFlagSet("flow", pflag.ContinueOnError)
	f.register(fl, "10s", "1s", "")
	must.Do(t, fl.Parse(args))
	var bad faults
	f.overlay(&flow, fl.Changed, func(key string) bool { return strings.Contains(strings.Join(has, " ")+" ", key+" ") }, &bad)
	return flow, bad
}

func TestFlowFlags(t *testing.T) {
	plain := model.Flow{Engine: "tcpbulk", Streams: 1, Duration: 10 * time.Second, Omit: time.Second, Interval: time.Second}
	file := model.Flow{Engine: "tcpbulk", Streams: 8, Duration: 3 * time.Second, Omit: 2 * time.Second, Interval: 100 * time.Millisecond, Window: 4096}
	all := []string{"flow.streams", "flow.duration", "flow.omit", "flow.interval", "flow.window"}
	for _, c := range []struct {
		name string
		flow model.Flow
		has  []string
		args []string
		want func(f *model.Flow)
	}{
		{"defaults", model.Flow{}, nil, nil, func(*model.Flow) {}},
		{"short run", model.Flow{}, nil, []string{"-t", "200ms"}, func(f *model.Flow) {
			f.Duration, f.Interval = 200*time.Millisecond, 200*time.Millisecond
		}},
		{"bytes", model.Flow{}, nil, []string{"-n", "1MiB"}, func(f *model.Flow) { f.Bytes, f.Duration, f.Omit = 1<<20, 0, 0 }},
		{"knobs", model.Flow{}, nil, []string{"-P", "4", "-l", "8K", "-w", "64K", "-M", "1400", "-C", "reno", "--nagle"}, func(f *model.Flow) {
			f.Streams, f.Block, f.Window, f.MSS, f.Congestion, f.Nagle = 4, 8192, 65536, 1400, "reno", true
		}},
		{"file", file, all, nil, func(f *model.Flow) { *f = file }},
		{"flags over file", file, all, []string{"-t", "5s", "-P", "2", "-i", "1s"}, func(f *model.Flow) {
			*f = file
			f.Duration, f.Streams, f.Interval = 5*time.Second, 2, time.Second
		}},
		{"bytes of a file", model.Flow{Bytes: 1000}, []string{"flow.bytes"}, nil, func(f *model.Flow) { f.Bytes, f.Duration, f.Omit = 1000, 0, 0 }},
		{"time over bytes of a file", model.Flow{Bytes: 1000}, []string{"flow.bytes"}, []string{"-t", "2s"}, func(f *model.Flow) { f.Duration = 2 * time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, bad := overlaid(t, c.flow, c.has, c.args...)
			diff := cmp.Diff(want, got)
			must.True(t, diff == "" && len(bad) == 0, "%v (-want +got):\n%s", bad, diff)
		})
	}
}

func TestFlowFlagsWrong(t *testing.T) {
	for arg, want := range map[string]string{
		"-t 0":                 "--time: 0 measures nothing",
		"-t -1s":               "--time: duration \"-1s\" is negative",
		"-t 25h":               "--time: 25h is longer than 24 h",
		"--omit never":         "--omit: duration \"never\"",
		"-t 1s -i 2s":          "--interval: 2s is longer than the run of 1 s",
		"-i 1us":               "--interval: 1us is shorter than 1 ms",
		"-n 0":                 "--bytes: nothing to send",
		"-P 0":                 "--parallel: value \"0\" of streams: want 1 to 128",
		"-P 129":               "--parallel: value \"129\"",
		"-l 65MiB":             "--length: value \"65MiB\" of block: want",
		"-w 10":                "--window: value \"10\" of window: want",
		"-M 87":                "--set-mss: value \"87\" of mss: want 88 to 32767",
		"-C averyverylongname": "--congestion: value \"averyverylongname\"",
	} {
		_, bad := overlaid(t, model.Flow{}, nil, strings.Fields(arg)...)
		must.True(t, len(bad) == 1 && strings.HasPrefix(bad[0], want), "%s: %q, want %q", arg, bad, want)
	}
	_, bad := overlaid(t, model.Flow{}, nil, "-P", "0", "-M", "1", "-t", "x")
	must.True(t, len(bad) == 3 && exitCode(bad.err()) == exitUsage, "%d of 3 mistakes: %q", len(bad), bad)
}

func TestQuickFlags(t *testing.T) {
	flow := flowFlags{duration: "1s", streams: 1}
	for _, c := range []struct {
		f    testFlags
		want []model.Direction
	}{
		{testFlags{flow: flow}, nil},
		{testFlags{flow: flow, to: true}, []model.Direction{model.To}},
		{testFlags{flow: flow, reverse: true}, []model.Direction{model.From}},
		{testFlags{flow: flow, both: true}, []model.Direction{model.Both}},
	} {
		var bad faults
		q := c.f.ask(func(string) bool { return false }, &bad)
		must.True(t, len(bad) == 0 && cmp.Equal(q.Directions, c.want), "%+v: %v, %v", c.f, q.Directions, bad)
	}
	for _, f := range []testFlags{
		{flow: flow, to: true, reverse: true}, {flow: flow, both: true, to: true}, {flow: flowFlags{duration: "x", streams: 1}},
	} {
		var bad faults
		if f.ask(func(string) bool { return false }, &bad); exitCode(bad.err()) != exitUsage {
			t.Errorf("%+v: %v", f, bad)
		}
	}
}
