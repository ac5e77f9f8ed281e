package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/must"
)

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

// TestHooks of flags and of a plan file are one assignment for each host, and what is
// not given does nothing.
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
	file, err := Parse("p", []byte("factors: [{knob: window, levels: [1K, 2K]}]\nhooks:\n- {before: 'sync; date', limit: 7s}\n- {host: far, before: up, after: down}\n- {after: date}\n"), knobs{}, kinds())
	must.Do(t, err)
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
