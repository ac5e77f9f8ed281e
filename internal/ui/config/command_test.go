package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/must"
)

// TestCommandFactor parses a command from flags and from a plan file; alone it is compared with
// the unchanged hosts, beside others both of its levels are in the grid.
func TestCommandFactor(t *testing.T) {
	f, err := ParseFactor("far.cmd:shaper=tc qdisc add dev eth0 root tbf rate 20mbit,x=1", knobs{})
	want := model.Command{Run: "tc qdisc add dev eth0 root tbf rate 20mbit,x=1", Limit: DefaultCommandTime}
	must.Need(t, err == nil && f.Command == want && f.String() == "far.cmd:shaper" && len(f.Levels) == 2, "%+v, %v", f, err)
	file := File{Factors: []Factor{f}}
	must.Say(t, file.Validate(), "no command that takes it back; add --undo shaper=", "without its undo")
	err = Undo(file.Factors, "shaper=tc qdisc del dev eth0 root")
	must.Need(t, err == nil && file.Factors[0].Command.Undo == "tc qdisc del dev eth0 root", "%+v, %v", file.Factors, err)
	settings, baseline := file.Settings()
	must.True(t, baseline == Current && len(settings) == 2 && settings[1].Name == "shaper" && settings[1].Assignments[0].Value == model.On && settings[1].Assignments[0].Command.Undo != "", "%q of %+v", baseline, settings)
	other, _ := ParseFactor("cmd:vpn=up", knobs{})
	file.Factors = append(file.Factors, other)
	must.Do(t, Undo(file.Factors, "cmd:vpn=down"))
	settings, baseline = file.Settings() // the baseline has all commands off: nothing is changed
	must.True(t, baseline == "shaper=off vpn=off" && len(settings) == 4 && len(settings[3].Assignments) == 3 && file.Validate() == nil, "%q of %+v, %v", baseline, settings, file.Validate())
	file, err = Parse("plan.yaml", []byte("far: nas\nfactors:\n- {knob: far.cmd:shaper, run: 'up, 1', undo: down, limit: 7s}\n- {knob: window, levels: [64KiB, 1MiB]}\n"), knobs{}, kinds())
	must.True(t, err == nil && file.Factors[0].Command == (model.Command{Run: "up, 1", Undo: "down", Limit: 7 * time.Second}), "%+v, %v", file.Factors, err)
	settings, baseline = file.Settings()
	must.True(t, baseline == Current && len(settings) == 5, "%q of %+v", baseline, settings)
}

// TestCommandMistakes: each error says what would be right.
func TestCommandMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"left.cmd:x=true":         `unknown host "left"`,
		"cmd:=true":               `"" is no name for a command`,
		"cmd:a b=true":            `"a b" is no name for a command`,
		"cmd:x= ":                 `there is no command; give the command as one line`,
		"cmd:x=true\nfalse":       `characters that are not shown`,
		"cmd:x=\u202etrue":        `characters that are not shown`,
		"cmd:x=" + long("y"):      `more than 4096 bytes`,
		"cmd:" + long("z") + "=1": `is no name for a command`,
	} {
		_, err := ParseFactor(in, knobs{})
		must.True(t, err != nil && strings.Contains(err.Error(), want), "%q: %v, want %s", in[:min(len(in), 40)], err, want)
	}
	f, _ := ParseFactor("far.cmd:x=true", knobs{})
	for in, want := range map[string]string{"x": "has no command", "y=true": "there is no command", "near.cmd:x=true": "there is no command", "x=": "there is no undo command"} {
		must.Say(t, Undo([]Factor{f}, in), want, "--undo %q", in)
	}
	for in, want := range map[string]string{
		"{knob: cmd:x, run: a}":                          "no command that takes it back",
		"{knob: cmd:x, undo: a}":                         "there is no command",
		"{knob: cmd:x, run: a, undo: b, levels: [on]}":   "has no other levels",
		"{knob: cmd:x, run: a, undo: b, limit: 1h}":      "too long for a command",
		"{knob: far.cmd:x, host: near, run: a, undo: b}": "contradicts",
		"{knob: window, levels: [1K, 2K], run: a}":       "run, undo and limit are of commands",
	} {
		must.Say(t, must.Err(Parse("p", []byte("factors:\n- "+in+"\n"), knobs{}, kinds())), want, "%s", in)
	}
}

func long(s string) string { return strings.Repeat(s, 5000) }

// kinds returns linerate's kinds of traffic.
func kinds() traffic.Kinds {
	return traffic.Kinds{
		bulk.Kind(), udp.Kind(), sizes.Kind(), requests.Kind(), probes.Kind(bulk.Kind(), udp.Kind()), files.Kind(),
	}
}

// A flow has the options of its engine, and no others.
func TestEngines(t *testing.T) {
	const window = "factors: [{knob: window, levels: [64KiB, 1MiB]}]\n"
	for name, c := range map[string]struct {
		text string
		want model.Flow
	}{
		"bulk":             {"engine: tcpbulk", model.Flow{Engine: "tcpbulk"}},
		"UDP":              {"engine: udpflow, rate: 2.5 gbit/s, pacing: clock, plain: yes", model.Flow{Engine: "udpflow", Params: traffic.Write(udp.Params{Rate: 2.5e9, Pacing: "clock", Plain: true})}},
		"UDP, no rate":     {"engine: udpflow", model.Flow{Engine: "udpflow", Params: traffic.Write(udp.Params{Rate: udp.DefaultRate})}},
		"UDP, any rate":    {"engine: udpflow, rate: unlimited", model.Flow{Engine: "udpflow", Params: traffic.Write(udp.Params{})}},
		"loaded":           {"engine: loaded, idle: 2s", model.Flow{Engine: "loaded", Lead: 2 * time.Second, Params: traffic.Write(probes.Params{Engine: "tcpbulk"})}},
		"loaded with UDP":  {"engine: loaded, load: udpflow, rate: 10M", model.Flow{Engine: "loaded", Params: traffic.Write(probes.Params{Engine: "udpflow", Load: traffic.Write(udp.Params{Rate: 10e6})})}},
		"requests":         {"engine: reqresp, requests: 500/s, reply: 4KiB, connect: on, spin: off, block: 64", model.Flow{Engine: "reqresp", Block: 64, Params: traffic.Write(requests.Params{Rate: 500, Reply: 4096, Connect: true})}},
		"requests in turn": {"engine: reqresp", model.Flow{Engine: "reqresp", Params: traffic.Write(requests.Params{})}},
	} {
		must.NoDiff(t, cmp.Diff(c.want, parse(t, window+"flow: {"+c.text+"}\n").Flow), "%s", name)
	}
}

// A rate as a factor belongs to the flow: it has no host, and a plateau.
func TestRateFactor(t *testing.T) {
	f := parse(t, "flow: {engine: udpflow, direction: to, duration: 1s}\nfactors: [{knob: rate, levels: [100M, 0.5 Gbit/s]}]\n")
	settings, _ := f.Settings()
	want := []model.Setting{
		{Name: Current}, {Name: "100M", Assignments: []model.Assignment{{Knob: "rate", Value: "100000000"}}},
		{Name: "0.5 Gbit/s", Assignments: []model.Assignment{{Knob: "rate", Value: "500000000"}}},
	}
	must.NoDiff(t, cmp.Diff(want, settings))
	p := must.Get(plan.New(f.Complete()))(t)
	must.True(t, p.Factor == "rate" && len(p.Levels) == 2, "plan of factor %q with levels %q:", p.Factor, p.Levels)
}

// Flags make a File, too, and get hints that fit flags.
func TestRateOfFlags(t *testing.T) {
	factor := must.Get(ParseFactor("rate=100M,500M", knobs{}))(t)
	f := File{Kinds: kinds(), Factors: []Factor{factor}, Request: plan.Request{Plan: model.Plan{Flow: model.Flow{Engine: "tcpbulk"}}}}
	err := f.Validate()
	must.True(t, err != nil && err.Error() == "factors[0]: rate belongs to UDP, not to engine tcpbulk; add --udp", "TCP: %v", err)
	f.Flow = model.Flow{Engine: "udpflow", Params: traffic.Write(udp.Params{Rate: 1e6})}
	must.OK(t, f.Validate(), "UDP")
}

func TestDocumentedRates(t *testing.T) {
	var got []File
	for _, e := range examples(t) {
		if f := parse(t, e); f.Flow.Engine == "udpflow" {
			got = append(got, f)
		}
	}
	must.True(t, len(got) == 1 && got[0].Flow.Block == 1200 && len(got[0].Factors) == 1 && got[0].Factors[0].Levels[2] == (Level{"90M", "90000000"}),
		"examples over UDP: %+v", got)
}

func TestObjectiveAndGuards(t *testing.T) {
	const head = "far: b\nfactors: [{knob: window, levels: [1M, 2M]}]\n"
	byDefault := []model.Guard{{Metric: model.RTT, Margin: 50, Default: true}, {Metric: model.RetransmitRatio, Margin: 0.005, Default: true},
		{Metric: model.CPUPerGbitNear, Margin: 50, Default: true}, {Metric: model.CPUPerGbitFar, Margin: 50, Default: true}}
	for name, c := range map[string]struct {
		text      string
		objective model.Metric
		guards    []model.Guard
	}{
		"left out":      {"", model.Goodput, byDefault},
		"none":          {"guards: none", model.Goodput, []model.Guard{}},
		"one by itself": {"guards: [none, rtt<20%]", model.Goodput, []model.Guard{{Metric: model.RTT, Margin: 20}}},
		"in its place": {"guards: rtt < 20 %", model.Goodput, append(byDefault[1:4:4],
			model.Guard{Metric: model.RTT, Margin: 20})},
		"both ends": {"guards: [none, cpu<30%, loss<0.5%]", model.Goodput, []model.Guard{{Metric: model.CPUPerGbitNear, Margin: 30},
			{Metric: model.CPUPerGbitFar, Margin: 30}, {Metric: model.RetransmitRatio, Margin: 0.005}}},
		"round trip decides": {"objective: rtt\nguards: [none, goodput<5%]", model.RTT, []model.Guard{{Metric: model.Goodput, Margin: 5}}},
		"requests":           {"flow: {engine: reqresp}", model.LatencyP50, []model.Guard{{Metric: model.LatencyP99, Margin: 50, Default: true}}},
		"loaded": {"flow: {engine: loaded, idle: 1s}\nobjective: goodput\nguards: [none, added-p99<5ms, p99<20%]", model.Goodput,
			[]model.Guard{{Metric: model.AddedP99, Margin: 0.005}, {Metric: model.LatencyP99, Margin: 20}}},
		"datagrams": {"flow: {engine: udpflow}\nobjective: loss\nguards: none", model.LossRatio, []model.Guard{}},
	} {
		o := parse(t, head+c.text+"\n").Complete()
		d := cmp.Diff(c.guards, o.Guards)
		must.True(t, d == "" && o.Objective == c.objective, "%s: %s decides, guards (-want +got):\n%s", name, o.Objective, d)
	}
}

func TestGuardMistakes(t *testing.T) {
	const head = "far: b\nfactors: [{knob: window, levels: [1M, 2M]}]\n"
	for text, want := range map[string]string{
		"objective: speed":                          `plan.yaml:3:12: objective: "speed" is no metric; there are goodput,`,
		"objective: goodputs":                       `plan.yaml:3:12: objective: "goodputs" is no metric; do you mean goodput?`,
		"objective: p99":                            "plan.yaml:3:12: objective: engine tcpbulk does not measure 99th percentile of latency; it measures goodput, rtt, retransmits, cpu-near, cpu-far",
		"guards: [rtt<20%, p98<3%]":                 `plan.yaml:3:19: guards[1]: "p98" is no metric; do you mean p99?`,
		"guards: [rtt<20%, rtt<3%]":                 "plan.yaml:3:19: guards[1]: guard rtt is given twice; leave one of them out",
		"guards: [rtt]":                             `plan.yaml:3:10: guards[0]: "rtt" says not by how much rtt may get worse; write it like rtt<20%`,
		"guards: [rtt<0%]":                          `plan.yaml:3:10: guards[0]: "0%" is no margin of rtt`,
		"guards: [loss<120%]":                       `plan.yaml:3:10: guards[0]: "120%" is no margin of loss`,
		"guards: [rtt<much]":                        `plan.yaml:3:10: guards[0]: `,
		"guards: [goodput<5%]":                      "plan.yaml:3:10: guards[0]: goodput is what decides already; name another one",
		"guards: [added<5ms]":                       "plan.yaml:3:10: guards[0]: engine tcpbulk does not measure median latency added by the load",
		"guards: {rtt: 20%}":                        "plan.yaml:3:9: guards: is a map, not a single value",
		"flow: {engine: reqresp}\nguards: [cpu<5%]": "plan.yaml:4:10: guards[0]: engine reqresp does not measure CPU per Gbit (near end)",
	} {
		must.Say(t, must.Err(Parse("plan.yaml", []byte(head+text+"\n"), knobs{}, kinds())), want, "%s\ngives", text)
	}
}

// TestHooks: hooks from flags and from a plan file are one assignment per host, and a missing
// command does nothing.
func TestHooks(t *testing.T) {
	var hooks []model.Assignment
	var err error
	for _, c := range []struct {
		after bool
		text  string
	}{{false, "sync"}, {true, "far: rm -f near:x"}, {true, "near:date"}} {
		hooks, err = Hook(hooks, c.after, c.text)
		must.Do(t, err)
	}
	near := model.Command{Run: "sync", Undo: "date", Limit: DefaultCommandTime}
	far := model.Command{Run: noCommand, Undo: "rm -f near:x", Limit: DefaultCommandTime}
	got := File{Request: plan.Request{Plan: model.Plan{Hooks: hooks}}}.Complete().Hooks
	must.True(t, len(got) == 2 && got[0].Host == model.Near && got[0].Command == near && got[1].Host == model.Far && got[1].Command == far && got[1].Knob == model.HookKnob, "%+v", got)
	file := must.Get(Parse("p", []byte("factors: [{knob: window, levels: [1K, 2K]}]\nhooks:\n- {before: 'sync; date', limit: 7s}\n- {host: far, before: up, after: down}\n- {after: date}\n"), knobs{}, kinds()))(t)
	near = model.Command{Run: "sync; date", Undo: "date", Limit: 7 * time.Second}
	far = model.Command{Run: "up", Undo: "down", Limit: DefaultCommandTime}
	got = file.Complete().Hooks
	must.True(t, len(got) == 2 && got[0].Command == near && got[1].Command == far, "%+v", got)
}

// TestHookMistakes: each error says what would be right.
func TestHookMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"{limit: 3s}":                "the hook has no command; add before:",
		"{host: left, before: a}":    `unknown host "left"`,
		"{before: a, limit: 1h}":     "too long for a command",
		"{befor: a}":                 "did you mean before?",
		`{before: "a\nb"}`:           "characters that are not shown",
		"{before: a}\n- {before: b}": "two commands before its runs; join them with &&",
	} {
		_, err := Parse("p", []byte("factors: [{knob: window, levels: [1K, 2K]}]\nhooks:\n- "+in+"\n"), knobs{}, kinds())
		must.True(t, err != nil && strings.Contains(err.Error(), want) && strings.HasPrefix(err.Error(), "p:"), "%s: %v, want %s", in, err, want)
	}
	must.Say(t, must.Err(Hook(nil, false, "far: ")), "there is no command")
}

// TestParseSetup reads the example of docs/hub.md, and refuses what cannot be meant.
func TestParseSetup(t *testing.T) {
	_, text, _ := strings.Cut(string(must.Get(os.ReadFile("../../../docs/hub.md"))(t)), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	s := must.Get(ParseSetup([]byte(text)))(t)
	must.True(t, len(s.Groups) == 2 && s.Groups[0].MaxRate == "100mbit" && s.Groups[1].ProbeOnly && len(s.Shared) == 2 && s.Shared[1].AtOnce == 2, "%+v", s)
	must.Do(t, must.Err(ParseSetup([]byte("{}"))))
	for text, says := range map[string]string{
		"": "empty", "groups: [{hosts: [a], rate: 1}]": "line 1: unknown field", "{}\n---\n{}": "more than one document", "groups: [{hosts: [a": "line 1",
		"groups: [{hosts: []}]": "names no hosts", "groups: [{hosts: ['[']}]": "no pattern", "groups: [{hosts: [a], max_rate: 3}]": "max_rate", "groups: [{hosts: [a], max_share: 0%}]": "max_share",
		"shared: [{between: [a, b], at_once: 1}]": "needs a name", "shared: [{name: x, between: [a, b]}]": "at_once of 0", "shared: [{name: x, between: [a], at_once: 1}]": "two patterns",
		"shared: [{name: x, between: [a, b], around: [c], at_once: 1}]": "two patterns", "shared: [{name: x, around: [a], at_once: 1}, {name: x, around: [b], at_once: 1}]": "has this name",
	} {
		must.Say(t, must.Err(ParseSetup([]byte(text))), says, "%q", text)
	}
}
