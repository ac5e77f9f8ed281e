package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

// knobs is a checker with some of the real knobs.
type knobs struct{}

func (knobs) OfFlow(id model.KnobID) bool {
	k, ok := knob.NewIndex().ByID(id)
	return !ok || k.Scope == knob.ScopeFlow
}

func (knobs) Known() []model.KnobID {
	return append(flowKnobs(), "tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.congestion_control", "tcp.timestamps", "link.mtu")
}

func (knobs) Check(id model.KnobID, value string) (string, error) {
	switch id {
	case "congestion", "tcp.congestion_control":
		if strings.Trim(value, "abcdefghijklmnopqrstuvwxyz_0123456789") != "" || value == "" {
			return "", fmt.Errorf("value %q of %s: want a name", value, id)
		}
		return value, nil
	case "nodelay":
		switch value {
		case "on", "true":
			return "1", nil
		case "off", "false":
			return "0", nil
		}
		return "", fmt.Errorf("value %q of %s: want on or off", value, id)
	case "tcp_rmem":
		return "", &knob.Unknown{ID: id, Meant: []model.KnobID{"tcp.recv_buffer_max"}}
	}
	if id == "rate" {
		k, _ := knob.NewIndex().ByID(id)
		return k.Parse(value)
	}
	if value == "auto" {
		return "0", nil
	}
	b, err := units.ParseBytes(value)
	least := units.Bytes(0)
	switch id {
	case "mss":
		least = 88
	case "streams":
		least = 1
	}
	if err != nil || b < least {
		return "", fmt.Errorf("value %q of %s: want at least %d", value, id, least)
	}
	return strconv.FormatInt(int64(b), 10), nil
}

func parse(t *testing.T, text string) File {
	t.Helper()
	f, err := Parse("plan.yaml", []byte(text), knobs{}, kinds())
	must.Need(t, err == nil, "%v\nin\n%s", err, text)
	return f
}

// examples returns the YAML blocks of the documentation.
func examples(t testing.TB) []string {
	t.Helper()
	b := must.Get(os.ReadFile("../../../docs/plan-files.md"))(t)
	var out []string
	for i, part := range strings.Split(string(b), "```") {
		if yaml, ok := strings.CutPrefix(part, "yaml\n"); ok && i%2 == 1 {
			out = append(out, yaml)
		}
	}
	must.Need(t, len(out) == 5, "%d examples in the documentation, want 5", len(out))
	return out
}

func TestDocumentedExample(t *testing.T) {
	got := parse(t, examples(t)[0])
	want := File{
		Title: "receive ceiling of the nas", Far: "lab:rate=1gbit,rtt=10ms",
		Request: plan.Request{Null: plan.NullTwin, Plan: model.Plan{
			Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Streams: 1, Duration: 10 * time.Second,
				Omit: 3 * time.Second, Interval: time.Second, Block: 128 << 10},
			Directions: []model.Direction{model.To, model.From},
			Baseline:   "current", Mode: model.Sequential, MaxBlocks: 20, Budget: time.Hour, Margin: 3, Tolerance: 5, Confidence: 0.95,
			Settle: 2 * time.Second, Seed: 42,
		}},
		Factors: []Factor{{Host: model.Far, Knob: "tcp.recv_buffer_max",
			Levels: []Level{{"64KiB", "65536"}, {"256KiB", "262144"}, {"1MiB", "1048576"}}}},
	}
	stored := parse(t, string(must.Get(os.ReadFile("testdata/plan1.yaml"))(t)))
	for _, f := range []File{got, stored} {
		must.NoDiff(t, cmp.Diff(want, f, cmpopts.IgnoreUnexported(File{}), cmpopts.IgnoreFields(File{}, "Kinds")))
	}
	must.True(t, got.Has("cooldown") && got.Has("flow.omit") && got.Has("factors[0].levels[2]") && !got.Has("blocks") && !got.Has("near"),
		"Has does not tell what the file gives")
	p := must.Get(plan.New(got.Complete()))(t)
	must.True(t, p.Baseline == Current && p.Factor == "tcp.recv_buffer_max" && slices.Equal(p.Levels, []string{"64KiB", "256KiB", "1MiB"}) && p.Twin != "", "plan %+v", p)
}

func TestDocumentedSettings(t *testing.T) {
	f := parse(t, examples(t)[1])
	want := []model.Setting{
		{Name: Current},
		{Name: "jumbo", Assignments: []model.Assignment{{Host: "near", Knob: "link.mtu", Value: "9000"}, {Host: "far", Knob: "link.mtu", Value: "9000"}}},
		{Name: "jumbo and window", Assignments: []model.Assignment{{Host: "near", Knob: "link.mtu", Value: "9000"},
			{Host: "far", Knob: "link.mtu", Value: "9000"}, {Knob: "window", Value: "1048576"}}},
	}
	got, baseline := f.Settings()
	diff := cmp.Diff(want, got)
	must.True(t, diff == "" && baseline == Current, "baseline %q (-want +got):\n%s", baseline, diff)
	o := f.Complete()
	must.True(t, o.Mode == model.FixedBlocks && o.MaxBlocks == 12 && o.Factor == "" && o.Settle == 0, "options %+v", o)
}

func TestGrid(t *testing.T) {
	f := parse(t, `
factors:
  - {knob: window, levels: [64KiB, auto]}
  - {knob: tcp.timestamps, host: near, levels: [0, 1]}
baseline: window=auto near.tcp.timestamps=1
`)
	got, baseline := f.Settings()
	names := lists.Each(got, func(s model.Setting) string { return s.Name })
	want := []string{"window=64KiB timestamps=0", "window=64KiB timestamps=1", "window=auto timestamps=0", "window=auto timestamps=1"}
	must.True(t, slices.Equal(names, want) && baseline == want[3], "settings %q, baseline %q", names, baseline)
	// Combinations must not share memory: each has its own values.
	a := got[1].Assignments
	must.True(t, a[0].Value == "65536" && a[1] == (model.Assignment{Host: "near", Knob: "tcp.timestamps", Value: "1"}), "second combination sets %+v", a)
	must.Equal(t, f.Complete().Factor, "", "a grid of two factors has a plateau")
}

// Named settings beside factors are the levels of another factor, and the one that leaves the
// hosts unchanged is the baseline.
func TestSetsAreLevels(t *testing.T) {
	const text = `
settings:
  - {name: all, set: {near.tcp.timestamps: 1, mss: 1400}}
  - {name: vanilla}
factors:
  - {knob: window, levels: [64KiB, 1MiB]}
`
	f := parse(t, text)
	got, baseline := f.Settings()
	o := f.Complete()
	must.True(t, len(got) == 4 && baseline == "vanilla window=64KiB" && got[1].Name == "all window=1MiB" && len(got[1].Assignments) == 3 && len(o.Factors) == 2 && o.Factors[0].Knob == "" && o.Factor == "", "%+v, baseline %q, %+v", got, baseline, o)
	_, baseline = parse(t, text+"baseline: all window=1MiB\n").Settings()
	must.True(t, baseline == got[1].Name, "baseline %q", baseline)
	for text, want := range map[string]string{
		"vanilla":                               "",
		"all:near.tcp.timestamps=1,window=1MiB": "near.tcp.timestamps=1 window=1048576",
		"mix: window = 64KiB , mss=1400":        "window=65536 mss=1400",
		":window=1MiB":                          "has no name",
		"window=1MiB":                           "has no name",
		"all:":                                  "has no value",
		"all:window":                            "has no value",
		"all:wndow=1MiB":                        "did you mean window?",
	} {
		s, err := ParseNamed(text, knobs{})
		set := lists.Each(s.Assignments, func(a model.Assignment) string { return a.Host.Of(a.Knob) + "=" + a.Value })
		got := strings.Join(set, " ")
		must.True(t, (err != nil || got == want) && (err == nil || want != "" && strings.Contains(err.Error(), want)), "%s: %q, %v", text, got, err)
	}
}

func TestBaseline(t *testing.T) {
	const factor = "factors: [{knob: window, levels: [64KiB, 1MiB]}]\n"
	for _, c := range []struct {
		text, baseline string
		settings       int
	}{
		{factor, Current, 3},
		{factor + "baseline: current\n", Current, 3},
		{factor + "baseline: 64KiB\n", "64KiB", 2},
		{factor + "baseline: 64K\n", "64KiB", 2},
		{factor + "baseline: 65536\n", "64KiB", 2},
		{"flow: {engine: udpflow}\nfactors: [{knob: rate, levels: [100M, 1G]}]\nbaseline: 1 Gbit/s\n", "1G", 2},
		{"settings: [{name: plain}, {name: big, set: {window: 1MiB}}]\n", "plain", 2},
		{"settings: [{name: current}, {name: big, set: {window: 1MiB}}]\nbaseline: current\n", Current, 2},
		{"settings: [{name: small, set: {window: 64K}}, {name: big, set: {window: 1MiB}}]\nbaseline: big\n", "big", 2},
	} {
		settings, baseline := parse(t, c.text).Settings()
		must.True(t, baseline == c.baseline && len(settings) == c.settings,
			"%s: baseline %q of %d settings, want %q of %d", c.text, baseline, len(settings), c.baseline, c.settings)
		must.True(t, slices.ContainsFunc(settings, func(s model.Setting) bool { return s.Name == baseline }),
			"%s: baseline %q is not among the settings", c.text, baseline)
	}
}

func TestNumericFactor(t *testing.T) {
	for levels, want := range map[string]model.KnobID{
		"window: [64KiB, 1MiB]": "window", "window: [64KiB]": "", "window: [auto, 64KiB]": "",
		"tcp.timestamps: [0, 1, 2]": "", "congestion: [cubic, reno]": "", "nodelay: [on, off]": "",
	} {
		knob, list, _ := strings.Cut(levels, ":")
		must.Equal(t, parse(t, "factors: [{knob: "+knob+", levels:"+list+"}]\n").Complete().Factor, want, "%s: plateau of", levels)
	}
}

func TestFlowValues(t *testing.T) {
	f := parse(t, `
flow: {direction: both, bytes: 1GiB, streams: 4, window: auto, mss: 1400, nodelay: off, congestion: bbr}
factors: [{knob: block, levels: [8KiB]}]
settle: 0s
confidence: 95%
twin: false
`)
	must.Equal(t, f.Flow, model.Flow{Direction: model.Both, Bytes: 1 << 30, Streams: 4, MSS: 1400, Nagle: true, Congestion: "bbr"}, "flow")
	o := f.Complete()
	must.True(t, o.Settle < 0 && o.Confidence == 0.95 && o.Null == plan.NullNone, "a settle of 0 s is not the default: options %+v", o)
}

func TestParseFactor(t *testing.T) {
	got, err := ParseFactor("far.tcp.recv_buffer_max=64KiB, 256KiB,1MiB", knobs{})
	want := Factor{Host: model.Far, Knob: "tcp.recv_buffer_max", Levels: []Level{{"64KiB", "65536"}, {"256KiB", "262144"}, {"1MiB", "1048576"}}}
	diff := cmp.Diff(want, got)
	must.True(t, diff == "" && err == nil, "%v (-want +got):\n%s", err, diff)
	must.Equal(t, got.String(), "far.tcp.recv_buffer_max", "String = %q", got)
	for in, want := range map[string]string{
		"window":               `"window" has no levels; write it like far.tcp.recv_buffer_max=64KiB,1MiB`,
		"window=":              `value "" of window: want at least 0`,
		"windwo=64K":           `unknown knob "windwo"; did you mean window?`,
		"far.window=64K":       `window belongs to the flow, not to the far host; write window without a host`,
		"window=64K,64KiB":     `level "64KiB" has the same value as "64K"; leave one of them out`,
		"mss=10,20":            "value \"10\" of mss: want at least 88\nvalue \"20\" of mss: want at least 88",
		"tcp_rmem=64K":         `unknown knob "tcp_rmem"; did you mean tcp.recv_buffer_max?`,
		"left.link.mtu=9000":   `unknown host "left"; write near. or far. before the knob, or nothing for both`,
		"mtu=1500,9000":        `unknown knob "mtu"; did you mean link.mtu?`,
		"completely.else=1500": `unknown knob "completely.else"; known are streams, window, mss, block, nodelay, congestion, rate, tcp.recv_buffer_max, tcp.send_buffer_max, tcp.congestion_control, tcp.timestamps, link.mtu`,
	} {
		_, err := ParseFactor(in, knobs{})
		var problems Errors
		must.True(t, errors.As(err, &problems) && err.Error() == want, "ParseFactor(%q): %v, want %s", in, err, want)
	}
}

// The flow's knobs are listed here, separately from the catalogue with their values; both lists
// must be the same.
func TestFlowKnobsAreTheCatalogues(t *testing.T) {
	var want []model.KnobID
	for _, k := range knob.Catalogue() {
		if k.Scope == knob.ScopeFlow {
			want = append(want, k.ID)
		}
	}
	got := flowKnobs()
	slices.Sort(got)
	slices.Sort(want)
	must.True(t, slices.Equal(got, want), "flow knobs %v, the catalogue has %v", got, want)
}

// A File made from flags is checked like one from a file.
func TestValidateFlags(t *testing.T) {
	window, _ := ParseFactor("window=64KiB,1MiB", knobs{})
	f := File{Factors: []Factor{window}}
	must.OK(t, f.Validate())
	f.Factors = append(f.Factors, window)
	f.Baseline = "2MiB"
	want := `factors[1]: window is already a factor; leave one of them out
baseline: "2MiB" is not a setting of this plan; known are current, window=64KiB window=64KiB, window=64KiB window=1MiB, window=1MiB window=64KiB, window=1MiB window=1MiB`
	err := f.Validate()
	must.True(t, err != nil && err.Error() == want, "%v, want\n%s", err, want)
	must.Fail(t, (File{}).Validate(), "a plan that compares nothing is valid")
}

func TestFirstHour19EndsAreNearAndFar(t *testing.T) {
	for _, before := range []string{"a.tcp.timestamps=0,1", "b.tcp.timestamps=0,1"} {
		must.Say(t, must.Err(ParseFactor(before, knobs{})), "near. or far.", "%s", before)
	}
	f := parse(t, "factors: [{knob: tcp.timestamps, host: far, levels: [0, 1]}]\n")
	must.Equal(t, f.Factors[0].Host, model.Far, "%+v", f.Factors)
	must.Say(t, must.Err(Parse("p", []byte("factors: [{knob: near.tcp.timestamps, host: far, levels: [0, 1]}]\n"), knobs{}, kinds())), "contradicts")
	const plan = "factors:\n- {knob: far.tcp.timestamps, levels: [0, 1]}\n- {knob: window, levels: [64KiB, 1MiB]}\nbaseline: "
	_, name := parse(t, plan+"far.tcp.timestamps=0 window=1MiB\n").Settings()
	must.True(t, name == "timestamps=0 window=1MiB", "baseline %s", name)
}
