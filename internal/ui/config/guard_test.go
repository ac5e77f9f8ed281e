package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/model"
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
		o := parse(t, head+c.text+"\n").Options()
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
		_, err := Parse("plan.yaml", []byte(head+text+"\n"), knobs{}, kinds())
		must.Say(t, err, want, "%s\ngives", text)
	}
}
