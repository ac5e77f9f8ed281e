package config

import (
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

// kinds are those that linerate has.
func kinds() traffic.Kinds {
	return traffic.Kinds{
		bulk.Kind(), udp.Kind(), sizes.Kind(), requests.Kind(), probes.Kind(bulk.Kind(), udp.Kind()), files.Kind(),
	}
}

// A flow holds what belongs to its engine, and nothing of the others.
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

// A rate as a factor is one of the flow: it has no host, and a plateau.
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

// Flags make a file, too: they get the hint that fits them.
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
