package fleet

import (
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestHostlist(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"pi":                    "pi",
		"node[001-003,7],gpu1":  "node001 node002 node003 node7 gpu1",
		"rack[0-1]n[1-2]-ib, a": "rack0n1-ib rack0n2-ib rack1n1-ib rack1n2-ib a",
		"n[9-11]":               "n9 n10 n11",
		"n[1-":                  "error",
		"n]":                    "error",
		"n[2-1]":                "error",
		"n[a-b]":                "error",
		"n[1-300]":              "error",
		"n[1-200],m[1-200]":     "error",
		"n[1-200]m[1-200]":      "error",
		"n[1-4000000000]":       "error",
	} {
		names, err := Hostlist(text)
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		must.Equal(t, got, want, "%q", text)
	}
}

// TestMatrices: the median of the valid runs counts, of a round trip the lower direction, and
// directions that lead nowhere do not appear.
func TestMatrices(t *testing.T) {
	s := model.Session{Mesh: &model.Mesh{Hosts: make([]model.MeshHost, 2), Ways: []model.MeshWay{
		{Name: "a -> b", From: 0, To: 1}, {Name: "b -> a", From: 1, To: 0}, {Name: "a -> c", From: 0, To: 2}, {Name: "a -> a"},
	}}}
	for i, w := range []string{"a -> b", "a -> b", "a -> b", "a -> b", "b -> a", "a -> c", "a -> a"} {
		d := []model.Direction{model.To, model.From}[i/4%2]
		r := model.Run{Setting: w, Flow: model.Flow{Direction: d}, State: model.RunValid, Values: []model.Value{
			{Direction: d, Metric: model.Goodput, Value: float64(10 + i)}, {Direction: d, Metric: model.IdleP50, Value: 1 / float64(1+i)},
		}}
		if i == 3 {
			r.State = model.RunInvalid
		}
		s.Runs = append(s.Runs, r)
	}
	rates, trips := Rates(&s), RoundTrips(&s)
	must.Same(t, rates.All(), []float64{11, 14}, "rates")
	must.Same(t, trips.All(), []float64{.2, .2}, "round trips")
	huge := model.Session{Mesh: &model.Mesh{Hosts: make([]model.MeshHost, MostHosts+1), Ways: s.Mesh.Ways}, Runs: s.Runs}
	must.Len(t, Rates(&huge), 0, "a mesh of too many hosts")
	must.True(t, rates[0][1] == 11 && rates.Column(0)[0] == 14 && rates.Row(1)[0] == 14, "%v", rates)
}

// TestSetup: groups only take away from what the owner of a host allows, and a path uses what is
// between its ends.
func TestSetup(t *testing.T) {
	s := Setup{
		Groups: []Group{{Hosts: []string{"edge-*"}, MaxRate: "100mbit", MaxShare: "2%"}, {Hosts: []string{"pi", "*-2"}, ProbeOnly: true}},
		Shared: []Shared{{Name: "uplink", Between: []string{"fra-*", "ams-*"}, AtOnce: 1}, {Name: "rack", Around: []string{"fra-12*"}, AtOnce: 2}},
	}
	must.Do(t, s.Validate())
	for name, want := range map[string]Limits{
		"edge-1": {Rate: 5e7, Share: .02}, "edge-2": {Rate: 5e7, Share: .02, ProbeOnly: true}, "pi": {Rate: 5e7, Share: .1, ProbeOnly: true}, "nas": {Rate: 5e7, Share: .1},
	} {
		must.Equal(t, s.Limits(&Host{Name: name, Limits: Limits{Rate: 5e7, Share: .1}}), want, "%s", name)
	}
	must.Equal(t, s.Limits(&Host{Name: "edge-1", Limits: Limits{Rate: 1e9, Share: .01}}), Limits{Rate: 1e8, Share: .01})
	for pair, want := range map[[2]string]int{{"fra-120", "ams-1"}: 2, {"ams-1", "fra-3"}: 1, {"fra-120", "fra-121"}: 0, {"fra-3", "fra-120"}: 1, {"a", "b"}: 0} {
		must.Len(t, s.Uses(pair[0], pair[1]), want, "%v", pair)
	}
}
