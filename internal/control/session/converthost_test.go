package session

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func rates() *rapid.Generator[fact.Of[units.BitRate]] {
	return facts(rapid.Map(finite(), func(f float64) units.BitRate { return units.BitRate(f) }))
}

// words generates lists that are not nil, since a known list is never nil.
func words() *rapid.Generator[fact.Of[[]string]] {
	return facts(rapid.Map(rapid.SliceOfN(name(), 0, 4), func(l []string) []string { return append([]string{}, l...) }))
}

// few generates lists that are nil when they are empty.
func few() *rapid.Generator[[]string] {
	return rapid.Map(rapid.SliceOfN(name(), 0, 3), func(l []string) []string { return append([]string(nil), l...) })
}

func machines() *rapid.Generator[model.Machine] {
	return rapid.Custom(func(t *rapid.T) model.Machine {
		s, n := facts(text(40)), number[int]()
		return model.Machine{
			Vendor: s.Draw(t, "vendor"), Product: s.Draw(t, "product"), Virtual: s.Draw(t, "virtual"), CPU: s.Draw(t, "cpu"),
			Sockets: n.Draw(t, "sockets"), Cores: n.Draw(t, "cores"), Threads: n.Draw(t, "threads"), NUMA: n.Draw(t, "nodes"),
			Memory: number[units.Bytes]().Draw(t, "memory"),
		}
	})
}

func routes() *rapid.Generator[model.Route] {
	return rapid.Custom(func(t *rapid.T) model.Route {
		s := facts(text(40))
		r := model.Route{
			Peer: text(40).Draw(t, "peer"), Interface: s.Draw(t, "interface"), Source: s.Draw(t, "source"),
			Gateway: s.Draw(t, "gateway"), MTU: number[int]().Draw(t, "mtu"),
		}
		if m := rapid.MapOfN(name(), text(20), 0, 4).Draw(t, "metrics"); len(m) > 0 {
			r.Metrics = m
		}
		return r
	})
}

func interfaces() *rapid.Generator[[]model.NIC] {
	return rapid.Custom(func(t *rapid.T) []model.NIC {
		s, n, b, f, r, w := facts(text(40)), number[int](), facts(rapid.Bool()), facts(finite()), rates(), words()
		offloads := facts(rapid.Map(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) model.Offload {
			return model.Offload{Name: name().Draw(t, "offload"), On: rapid.Bool().Draw(t, "on"), Fixed: rapid.Bool().Draw(t, "fixed")}
		}), 0, 3), func(l []model.Offload) []model.Offload { return append([]model.Offload{}, l...) }))
		var all []model.NIC
		for i := range rapid.IntRange(0, 3).Draw(t, "interfaces") {
			all = append(all, model.NIC{
				Name: fmt.Sprintf("eth%d", i), Kind: s.Draw(t, "kind"), Up: b.Draw(t, "up"), MAC: s.Draw(t, "mac"), Addresses: few().Draw(t, "addresses"),
				MTU: n.Draw(t, "mtu"), MTUMin: n.Draw(t, "least"), MTUMax: n.Draw(t, "most"),
				Driver: s.Draw(t, "driver"), Version: s.Draw(t, "version"), Firmware: s.Draw(t, "firmware"),
				Bus: model.Bus{
					Kind: s.Draw(t, "bus"), Address: s.Draw(t, "address"), Device: s.Draw(t, "device"), NUMA: n.Draw(t, "node"),
					Width: n.Draw(t, "width"), WidthMax: n.Draw(t, "widest"), Clock: f.Draw(t, "clock"), ClockMax: f.Draw(t, "fastest"),
					Allows: r.Draw(t, "allows"), AllowsMax: r.Draw(t, "allows most"), Narrowest: text(20).Draw(t, "narrowest"),
				},
				Media: model.Media{
					Speed: r.Draw(t, "speed"), Duplex: s.Draw(t, "duplex"), Autoneg: b.Draw(t, "autoneg"),
					Supported: w.Draw(t, "supported"), Advertised: w.Draw(t, "advertised"), Partner: w.Draw(t, "partner"),
				},
				Offloads: offloads.Draw(t, "offloads"), Qdisc: s.Draw(t, "qdisc"), Master: s.Draw(t, "master"), Below: few().Draw(t, "below"),
				VLAN: n.Draw(t, "vlan"), Bond: s.Draw(t, "bond"), Settings: knobs().Draw(t, "settings"),
			})
		}
		return all
	})
}

func TestDecodingOfHostsRefuses(t *testing.T) {
	many := make([]string, maxListed+1)
	for what, facts := range map[string]*sessionpb.HostFacts{
		"many interfaces":    {Nics: make([]*sessionpb.Nic, MaxNICs+1)},
		"interface twice":    {Nics: []*sessionpb.Nic{{Name: "e"}, {Name: "e"}}},
		"no name":            {Nics: []*sessionpb.Nic{{}}},
		"many addresses":     {Nics: []*sessionpb.Nic{{Name: "e", Addresses: many}}},
		"many parts":         {Nics: []*sessionpb.Nic{{Name: "e", Below: many}}},
		"escape sequence":    {Nics: []*sessionpb.Nic{{Name: "e", Below: []string{"\x1b]0;x\a"}}}},
		"many modes":         {Nics: []*sessionpb.Nic{{Name: "e", Media: &sessionpb.Media{Partner: &sessionpb.Words{Known: true, Words: make([]string, maxModes+1)}}}}},
		"many offloads":      {Nics: []*sessionpb.Nic{{Name: "e", Offloads: &sessionpb.Offloads{Known: true, Offloads: make([]*sessionpb.Offload, maxModes+1)}}}},
		"nameless offload":   {Nics: []*sessionpb.Nic{{Name: "e", Offloads: &sessionpb.Offloads{Known: true, Offloads: []*sessionpb.Offload{{}}}}}},
		"kind of a fact":     {Machine: &sessionpb.Machine{Cores: &sessionpb.Fact{Value: &sessionpb.Fact_Text{Text: "many"}}}},
		"negative memory":    {Machine: &sessionpb.Machine{Memory: &sessionpb.Fact{Value: &sessionpb.Fact_Number{Number: -1}}}},
		"long peer":          {Route: &sessionpb.Route{Peer: strings.Repeat("x", MaxAddress+1)}},
		"metric twice":       {Route: &sessionpb.Route{Metrics: []*sessionpb.Metric{{Name: "mtu"}, {Name: "mtu"}}}},
		"many metrics":       {Route: &sessionpb.Route{Metrics: make([]*sessionpb.Metric, maxListed+1)}},
		"metric of no name":  {Route: &sessionpb.Route{Metrics: []*sessionpb.Metric{{Value: "1"}}}},
		"setting read twice": {Nics: []*sessionpb.Nic{{Name: "e", Settings: []*sessionpb.Knob{{Id: "k"}, {Id: "k"}}}}},
	} {
		var c check
		decodeFacts(&c, facts, model.Far)
		must.Is(t, c.err, ErrInvalid, "%s", what)
	}
}

// What is sent is never more than what is accepted.
func TestEncodedHostsAreBounded(t *testing.T) {
	many := strings.Fields(strings.Repeat("x ", 1000))
	f := model.HostFacts{Route: &model.Route{Metrics: map[string]string{}}}
	for i := range 1000 {
		f.Route.Metrics[fmt.Sprint("m", i)] = "1"
		f.NICs = append(f.NICs, model.NIC{
			Name: fmt.Sprint("e", i), Addresses: many, Below: many, Media: model.Media{Supported: fact.Known(many, "test")},
			Offloads: fact.Known(make([]model.Offload, 0, 1), "test"),
		})
	}
	var c check
	got := decodeFacts(&c, encodeFacts(f), model.Far)
	if c.err != nil || len(got.NICs) != MaxNICs || len(got.NICs[0].Addresses) != maxListed || len(got.NICs[0].Media.Supported.Or(nil)) != maxModes || len(got.Route.Metrics) != maxListed {
		t.Errorf("%v: %d interfaces", c.err, len(got.NICs))
	}
}
