package cli

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/confined"
	"linerate/internal/core/hist"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/store/tables"
	"linerate/internal/ui/config"
)

// overlaid applies args, as the flags of a flow, to a plan file with this flow.
func overlaid(t *testing.T, file string, args ...string) (config.File, error) {
	t.Helper()
	a := &console{Env: Env{Getenv: os.Getenv}, knobs: knob.NewIndex()}
	plan := config.File{Kinds: a.kinds()}
	if file != "" {
		plan = must.Get(config.Parse("plan.yaml", []byte("factors: [{knob: window, levels: [64KiB]}]\nflow: {"+file+"}\n"), knobChecker{a.knobs, plan.Kinds, nil}, plan.Kinds))(t)
	}
	fl := pflag.NewFlagSet("flow", pflag.ContinueOnError)
	registerFlow(fl, "10s", "1s", "")
	must.Do(t, fl.Parse(args))
	return a.over(plan, fl)
}

func TestFlowFlags(t *testing.T) {
	plain := model.Flow{Engine: "tcpbulk", Streams: 1, Duration: 10 * time.Second, Omit: time.Second, Interval: time.Second}
	const all = "streams: 8, duration: 3s, omit: 2s, interval: 100ms, window: 4KiB"
	file := model.Flow{Engine: "tcpbulk", Streams: 8, Duration: 3 * time.Second, Omit: 2 * time.Second, Interval: 100 * time.Millisecond, Window: 4096}
	for _, c := range []struct {
		name, file string
		args       []string
		want       func(f *model.Flow)
	}{
		{"defaults", "", nil, func(*model.Flow) {}},
		{"short run", "", []string{"-t", "200ms"}, func(f *model.Flow) {
			f.Duration, f.Interval = 200*time.Millisecond, 200*time.Millisecond
		}},
		{"bytes", "", []string{"-n", "1MiB"}, func(f *model.Flow) { f.Bytes, f.Duration, f.Omit = 1<<20, 0, 0 }},
		{"knobs", "", []string{"-P", "4", "-l", "8K", "-w", "64K", "-M", "1400", "-C", "reno", "--nagle"}, func(f *model.Flow) {
			f.Streams, f.Block, f.Window, f.MSS, f.Congestion, f.Nagle = 4, 8192, 65536, 1400, "reno", true
		}},
		{"file", all, nil, func(f *model.Flow) { *f = file }},
		{"flags over file", all, []string{"-t", "5s", "-P", "2", "-i", "1s"}, func(f *model.Flow) {
			*f = file
			f.Duration, f.Streams, f.Interval = 5*time.Second, 2, time.Second
		}},
		{"bytes over time of a file", all, []string{"-n", "1MiB"}, func(f *model.Flow) {
			*f = file
			f.Duration, f.Omit, f.Bytes = 0, 0, 1<<20
		}},
		{"bytes of a file", "bytes: 1000", nil, func(f *model.Flow) { f.Bytes, f.Duration, f.Omit = 1000, 0, 0 }},
		{"time over bytes of a file", "bytes: 1000", []string{"-t", "2s"}, func(f *model.Flow) { f.Duration, f.Omit = 2*time.Second, time.Second }},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := plain
			c.want(&want)
			got, err := overlaid(t, c.file, c.args...)
			must.NoDiff(t, cmp.Diff(want, got.Flow), "%v", err)
			must.OK(t, err)
		})
	}
}

func TestFlowFlagsWrong(t *testing.T) {
	for arg, want := range map[string]string{
		"-t 0":                 "--time: must be longer than 0",
		"-t -1s":               "--time: duration \"-1s\" is negative",
		"-t 25h":               "--time: \"25h\" is longer than 24 h",
		"-t 1s -n 1M":          "--bytes: a run ends after a duration or after bytes",
		"--omit 1s -n 1M":      "--omit: a run that ends after bytes has no warm-up",
		"--omit never":         "--omit: duration \"never\"",
		"-t 1s -i 2s":          "--interval: 2 s is longer than the duration 1 s",
		"-i 1us":               "--interval: \"1us\" is shorter than 10 ms",
		"-n 0":                 "--bytes: must be more than 0",
		"-P 0":                 "--parallel: value \"0\" of streams: want 1 to 128",
		"-P 129":               "--parallel: value \"129\"",
		"-l 65MiB":             "--length: value \"65MiB\" of block: want",
		"-l 0":                 "--length: 0 bytes are nothing",
		"-w 10":                "--window: value \"10\" of window: want",
		"-M 87":                "--set-mss: value \"87\" of mss: want 88 to 32767",
		"-C averyverylongname": "--congestion: value \"averyverylongname\"",
	} {
		_, err := overlaid(t, "", strings.Fields(arg)...)
		must.True(t, err != nil && strings.HasPrefix(err.Error(), want) && strings.Count(err.Error(), "\n") == 0, "%s: %v, want %q", arg, err, want)
	}
	_, err := overlaid(t, "", "-P", "0", "-M", "1", "-t", "x")
	must.True(t, strings.Count(err.Error(), "\n") == 2 && exitCode(err) == exitUsage, "not 3 mistakes: %v", err)
}

func TestQuickFlags(t *testing.T) {
	quick := func(f testFlags, args ...string) (trial.Quick, faults) {
		a := &console{Env: Env{Getenv: os.Getenv}, knobs: knob.NewIndex()}
		fl := pflag.NewFlagSet("test", pflag.ContinueOnError)
		registerFlow(fl, "5s", "1s", "")
		registerOwn(fl, a.kinds())
		must.Do(t, fl.Parse(args))
		f.repeat, f.idle = 1, "1s"
		var bad faults
		q, _ := a.quick(f, fl, &bad)
		return q, bad
	}
	for _, c := range []struct {
		f    testFlags
		want []model.Direction
	}{
		{testFlags{}, nil}, {testFlags{to: true}, []model.Direction{model.To}},
		{testFlags{reverse: true}, []model.Direction{model.From}}, {testFlags{both: true}, []model.Direction{model.Both}},
	} {
		q, bad := quick(c.f)
		must.True(t, len(bad) == 0 && cmp.Equal(q.Directions, c.want), "%+v: %v, %v", c.f, q.Directions, bad)
	}
	for want, c := range map[string]struct {
		f    testFlags
		args []string
	}{
		"exclude each other":              {f: testFlags{to: true, reverse: true}},
		"--bidir":                         {f: testFlags{both: true, to: true}},
		"--time: duration \"x\"":          {args: []string{"-t", "x"}},
		"--nagle: nodelay belongs to TCP": {f: testFlags{udp: true}, args: []string{"--nagle"}},
		"add --udp":                       {args: []string{"--pacing", "kernel"}},
	} {
		_, bad := quick(c.f, c.args...)
		must.True(t, len(bad) == 1 && strings.Contains(bad[0], want) && exitCode(bad.err()) == exitUsage, "%+v: %q", c, bad)
	}
}

const (
	pin  = "uP2W8hvl0QyUPsbPpt7JYhtjzyVTAmKDCJOIOCmeqzk"
	link = "linerate://" + pin + ".c2VjcmV0IG9mIHRoZSB0ZXN0IGFuZCBub3RoaW5nIGVsc2U@nas:5299"
)

func TestCompareRows(t *testing.T) {
	session := func(near string, values map[string][]float64) model.Session {
		s := model.Session{Near: near, Far: "lab:lan", Plan: model.Plan{Twin: "current (twin)"}}
		for _, name := range []string{"current", "64KiB", "current (twin)"} {
			if len(values[name]) > 0 {
				s.Plan.Settings = append(s.Plan.Settings, model.Setting{Name: name})
			}
			for _, v := range values[name] {
				s.Runs = append(s.Runs, model.Run{Setting: name, State: model.RunValid,
					Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: v}}})
			}
		}
		return s
	}
	a := session("lab:lan", map[string][]float64{"current": {100, 300, 200}, "current (twin)": {5}})
	b := session("this machine", map[string][]float64{"current": {400}, "64KiB": {50}})
	b.Runs = append(b.Runs, model.Run{Setting: "current", State: model.RunInvalid,
		Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9000}}})
	rows := compareRows(a, b)
	must.Need(t, len(rows) == 2, "%d rows: %+v", len(rows), rows)
	if r := rows[0]; r.Setting != "current" || *r.A != (summary{3, 200, 200, 100, 300}) || r.B.N != 1 || r.Ratio == nil || *r.Ratio != 2 {
		t.Errorf("%+v", r)
	}
	r := rows[1]
	must.True(t, r.Setting == "64KiB" && r.A == nil && r.B != nil && r.Ratio == nil, "%+v", r)
	must.True(t, route(a) == "lab:lan" && route(b) == "this machine -> lab:lan", "%s, %s", route(a), route(b))
}

// TestResumedPair: every kind of stored session finds its ends again; a lab is stored as both. That
// ends given anew are the same hosts is seen once they are open, by package trial.
func TestResumedPair(t *testing.T) {
	exec := "exec:10.0.0.2 linerate agent"
	for name, c := range map[string]struct {
		f         runFlags
		s         model.Session
		args      []string
		near, far target.Kind
	}{
		"lab":       {s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: target.Here, far: target.Lab},
		"exec":      {f: runFlags{allowExec: true}, s: model.Session{Near: app.ThisMachine, Far: exec}, near: target.Here, far: target.Exec},
		"both exec": {f: runFlags{allowExec: true}, s: model.Session{Near: exec, Far: "exec:10.0.0.3 linerate agent"}, near: target.Exec, far: target.Exec},
		"link":      {s: model.Session{Near: app.ThisMachine, Far: "linerate://" + pin + "@nas:5299"}, args: []string{link}, near: target.Here, far: target.Serve},
		"own exec":  {f: runFlags{from: exec}, s: model.Session{Near: exec, Far: exec}, args: []string{exec}, near: target.Exec, far: target.Exec},
		"new ends":  {f: runFlags{far: link, from: exec}, s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: target.Exec, far: target.Serve},
		"new lab":   {f: runFlags{far: "lab:wan"}, s: model.Session{Near: "lab:lan", Far: "lab:lan"}, near: target.Here, far: target.Lab},
	} {
		near, far, err := c.f.resumedPair(c.s, c.args, app.Env{Getenv: os.Getenv})
		must.True(t, err == nil && near.Kind == c.near && far.Kind == c.far, "%s: %+v, %+v, %v", name, near, far, err)
		must.True(t, (name != "link" || far.Link.Secret != "") && (name != "new lab" || far.Text == "lab:wan"),
			"%s: the stored end won over the one given: %+v", name, far)
	}
}

// TestNoCommandOfAFileRunsUnasked: a plan file and a database may come from another person, and
// so may the commands in them.
func TestNoCommandOfAFileRunsUnasked(t *testing.T) {
	touched := filepath.Join(t.TempDir(), "touched")
	evil := "exec:127.0.0.1 touch " + touched
	for name, c := range map[string]struct {
		text string // of the plan
		args []string
	}{
		"far":                 {"far: '" + evil + "'\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"near":                {"near: '" + evil + "'\nfar: lab:lan\nfactors: [{knob: window, levels: [64KiB]}]\n", []string{"--far", "exec:127.0.0.1 true"}},
		"without quotes":      {"far: " + evil + "\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"folded":              {"far: >-\n  exec:127.0.0.1\n  touch " + touched + "\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"with a blank before": {"far: ' " + evil + "'\nfactors: [{knob: window, levels: [64KiB]}]\n", nil},
		"with another exec":   {"far: '" + evil + "'\nfactors: [{knob: window, levels: [64KiB]}]\n", []string{"--from", "exec:127.0.0.1 true"}},
	} {
		plan := filepath.Join(t.TempDir(), "plan.yaml")
		must.Do(t, os.WriteFile(plan, []byte(c.text), 0o600))
		var out, errs strings.Builder
		code := Main(t.Context(), Env{Version: "v", Self: []string{"linerate"}, Out: &out, Err: &errs, Getenv: func(string) string { return "" }, Now: time.Now},
			append([]string{"run", plan, "--db", ":memory:"}, c.args...))
		must.True(t, code == exitUsage && strings.Contains(errs.String(), "wants to run a command on this machine") && strings.Contains(errs.String(), "--allow-exec"), "%s: exit code %d\n%s", name, code, errs.String())
		must.Need(t, must.Err(os.Stat(touched)) != nil, "%s: the command of the plan ran", name)
	}
	s := model.Session{ID: "1", Near: "this machine", Far: evil}
	_, _, err := (&runFlags{}).resumedPair(s, nil, app.Env{Getenv: os.Getenv})
	must.True(t, exitCode(err) == exitUsage && strings.Contains(fault.HintOf(err), "--far '"+evil+"'"), "a stored session: %v, hint %q", err, fault.HintOf(err))
}

// long is a source with one session of one block with this many runs, each with samples and with
// latencies of both ends.
type long int

func (n long) Pieces(context.Context, string) iter.Seq2[tables.Piece, error] {
	var times hist.Recorder
	for i := range 50 {
		times.Record(10*time.Millisecond + time.Duration(i)*500*time.Microsecond)
	}
	ends := []model.EndReport{{Host: model.Near}, {Host: model.Far}}
	for i := range ends {
		ends[i].Flows = []model.FlowReport{{Direction: model.To, UDP: &model.UDPSummary{Variation: times.Histogram()}}}
		one := model.Latency{Name: "loaded udp", Direction: model.To, Times: times.Histogram(), Sent: 50}
		ends[i].Latencies = []model.Latency{one, one, one}
		ends[i].Counters = slices.Repeat([]model.Counter{{Name: "udp_receive_buffer_errors", Of: "eth0", Value: 1 << 30}}, 40)
	}
	samples := make([]model.Sample, 200)
	for i := range samples {
		samples[i] = model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Start: time.Duration(i) * time.Millisecond, Length: time.Millisecond, Value: float64(i % 7)}
	}
	return func(yield func(tables.Piece, error) bool) {
		s := model.Session{ID: "long", Kind: model.KindRun, State: model.SessionDone, Plan: model.Plan{
			Settings: []model.Setting{{Name: "now"}}, Baseline: "now", Directions: []model.Direction{model.To}, Mode: model.FixedBlocks}}
		if !yield(tables.Piece{Session: &s}, nil) {
			return
		}
		for i := range int(n) {
			r := model.Run{Number: i + 1, Block: 1, Setting: "now", State: model.RunValid, Flow: model.Flow{Direction: model.To, Duration: time.Second}, Ends: ends,
				Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}}
			if !yield(tables.Piece{Run: &r}, nil) || !yield(tables.Piece{Samples: samples}, nil) {
				return
			}
		}
	}
}

// TestLongSession: a session with many runs is shown, listed, reported in every format and
// exported in little memory. One with 9,018 runs, 72,000 histograms and 1.8 million samples once
// took 2.2 GB to show. What counts is resident: mapped memory also grows while other programs
// delay the garbage collector.
func TestLongSession(t *testing.T) {
	confined.Run(t, 500<<20, 300, func(t *testing.T) {
		w, out := newWorld(t), t.TempDir()
		st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
		must.Do(t, st.Import(t.Context(), long(must.Often(1_000, 3_000)), []string{"long"}))
		must.Do(t, st.Close())
		all := []string{"list", "show long", "export --archive " + filepath.Join(out, "a.linerate")}
		for _, f := range formats() {
			all = append(all, "report long --format "+f.name+" --output "+filepath.Join(out, "a"+f.suffix))
		}
		for _, args := range all {
			must.Equal(t, w.main(t, strings.Fields(args)...), 0, "%s: %s", args, w.err.String())
			_, most, err := confined.Memory(os.Getpid())
			must.True(t, err == nil && most < 250<<20, "%s: %d bytes resident, %v", args, most, err)
		}
	})
}
