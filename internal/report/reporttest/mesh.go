package reporttest

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// meshTest is `linerate mesh`: pi has a slow link, vps is far away, mac is unreachable, and one
// direction has no valid run.
func meshTest() Case {
	names := []string{"desk", "nas", "pi", "vps", "mac"}
	s := base("20261121T140000-me5h", model.KindMesh, model.Plan{Flow: flow(model.To), Mode: model.FixedBlocks, Confidence: 0.95, Seed: 7})
	s.Title, s.Near, s.Far, s.Hosts, s.WireRate = "", "", "desk, nas, pi, vps, mac", nil, fact.Unknown[units.BitRate]("a mesh has many paths")
	s.Mesh = &model.Mesh{Rounds: 1, AtOnce: 2}
	c := Case{"mesh", s, map[int][]model.Sample{}}
	for i, name := range names {
		h := model.MeshHost{
			Name: name, Target: "root@" + name, System: "linux", Kernel: fact.Known("6.8.0", "uname"), Address: "192.0.2.1",
			MTU: fact.Known(1500, "sysfs"), Link: fact.Known(units.BitRate([]float64{1e9, 1e9, 1e8, 1e9}[i%4]), "sysfs"),
		}
		if name == "mac" {
			h = model.MeshHost{Name: name, Target: "root@mac", Problem: "no answer in 12 s"}
		}
		c.Session.Mesh.Hosts = append(c.Session.Mesh.Hosts, h)
	}
	for i, from := range names {
		for j, to := range names {
			if i == j {
				continue
			}
			w := model.MeshWay{Name: from + " -> " + to, From: i, To: j}
			d := model.To
			if i > j {
				d = model.From
			}
			rate, trip := 941e6, 0.0002
			if from == "pi" || to == "pi" {
				rate = 94.1e6
			}
			if from == "vps" || to == "vps" {
				trip = 0.031
			}
			switch {
			case from == "mac" || to == "mac":
			case from == "nas" && to == "vps":
				w.Problem = "nothing came back from 192.0.2.4:5299"
			case from == "vps" && to == "nas":
				w.LeftOut = "a linerate serve measures with other hosts than the one that steers it only where its --peers names them"
			default:
				c.add(len(c.Session.Runs)+1, w.Name, d, rate*(1+noise(i+j)))
				r := &c.Session.Runs[len(c.Session.Runs)-1]
				r.Values = append(r.Values, model.Value{Direction: d, Metric: model.IdleP50, Value: trip})
				c.Session.Plan.Order = append(c.Session.Plan.Order, []string{w.Name})
			}
			c.Session.Mesh.Ways = append(c.Session.Mesh.Ways, w)
		}
	}
	c.Session.Plan.MaxBlocks, c.Session.Ended = len(c.Session.Plan.Order), began().Add(2*time.Minute)
	return c
}
