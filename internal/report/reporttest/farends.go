package reporttest

import (
	"linerate/internal/core/analysis"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/core/plan/plantest"
	"linerate/internal/core/units"
)

// farEndsTest is an experiment over three far ends with three windows each: one far end has a
// slow link, another one is slow with a small window.
func farEndsTest() Case {
	ends := []string{"root@nas", "root@pi", "root@rack"}
	rates := [][]float64{{320e6, 610e6, 931e6}, {93e6, 94e6, 94.1e6}, {310e6, 620e6, 450e6}}
	factors := []model.Factor{plantest.Factor(model.FarEnd, ends...), plantest.Factor("window", "65536", "131072", "1048576")}
	for i := range ends {
		factors[0].Levels[i].Name = ends[i]
	}
	p, err := plan.New(plan.Request{Plan: model.Plan{Settings: plantest.Settings(factors...), Factors: factors, Flow: flow(model.To), Mode: model.FixedBlocks, MaxBlocks: 10, Seed: 7, Guards: []model.Guard{}}, Null: plan.NullNone})
	if err != nil {
		panic(err) // the options are constants
	}
	c := Case{"farends", base("20261121T130000-fe3d", model.KindRun, p), map[int][]model.Sample{}}
	for i, name := range []string{"pi", "rack"} {
		other := base("", model.KindRun, p)
		other.Hosts[1].Name, other.Hosts[1].Address = name, "192.0.2."+string(rune('3'+i))
		if name == "pi" {
			other.WireRate = fact.Known(units.BitRate(1e8), "sysfs")
		}
		c.Session.Plan.Ends = append(c.Session.Plan.Ends, model.End{Target: ends[i+1], Hosts: other.Hosts, WireRate: other.WireRate})
	}
	at := map[string]int{}
	for i, name := range plan.Cells(factors) {
		at[name] = i
	}
	for b, names := range p.Order {
		for i, name := range names {
			c.add(b+1, name, model.To, rates[at[name]/3][at[name]%3]*(1+noise(3*b+i)))
		}
	}
	r := analysis.Analyse(p, c.Session.Runs)
	c.Session.Verdicts, c.Session.Noise, c.Session.Reason = r.Verdicts, r.Noise, r.Reason
	return c
}
