package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/units"
)

// NoGuards is the word for no guards, not even the traffic's own.
const NoGuards = "none"

// Guard is one guard as written: "p99<20%". The name NoGuards removes the traffic's default
// guards; any other name replaces the default guard of its metric.
type Guard struct {
	Name   string // of metric.ByName, or metric.CPU for both ends, or NoGuards
	Margin float64
}

// ParseGuard parses NAME<MARGIN or NoGuards. The margin is in percent, for loss and similar
// metrics in percent of all packets, for added latency a time.
func ParseGuard(text string) (Guard, error) {
	name, margin, ok := strings.Cut(text, "<")
	name, margin = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(margin)
	if !ok && name == NoGuards {
		return Guard{Name: NoGuards}, nil
	}
	i, known := metric.ByName(name)
	if !known && name != metric.CPU {
		return Guard{}, bad(metric.Unknown(name, metric.CPU, NoGuards).Error(), "")
	}
	if !ok {
		return Guard{}, bad(quote(text)+" says not by how much "+name+" may get worse", "write it like "+name+"<20%")
	}
	g := Guard{Name: cmp.Or(i.Short, metric.CPU)}
	if i.CanBe0 && i.Unit == "s" {
		d, err := units.ParseDuration(margin)
		if err != nil {
			return g, err
		}
		g.Margin = d.Seconds()
	} else {
		p, err := units.ParsePercent(margin)
		if err != nil {
			return g, err
		}
		g.Margin = float64(p)
		if i.CanBe0 {
			g.Margin /= 100
		}
	}
	if !(g.Margin > 0) || known && !i.LowIs && g.Margin >= 100 || i.Unit == "%" && g.Margin >= 1 {
		return g, bad(fmt.Sprintf("%s is no margin of %s", quote(margin), name), "write it like "+name+"<20%")
	}
	return g, nil
}

// ParseObjective parses the name of a metric that can decide.
func ParseObjective(text string) (model.Metric, error) {
	i, ok := metric.ByName(text)
	if !ok {
		return "", bad(metric.Unknown(text).Error(), "")
	}
	return i.ID, nil
}

// guards reads "guards": none, one guard, or a list of them.
func (r *reader) guards(n ast.Node, path string) {
	r.each(n, path, func(n ast.Node, path string) {
		var g Guard
		value(r, &g, ParseGuard)(n, path)
		switch {
		case g.Name == "":
		case slices.ContainsFunc(r.f.Guards, func(o Guard) bool { return o.Name == g.Name }):
			r.fault(path, "leave one of them out", "guard %s is given twice", g.Name)
		default:
			r.f.Guards = append(r.f.Guards, g)
		}
	})
}

// decides returns the deciding metric and the guards in the plan of f.
func (f File) decides() (model.Metric, []model.Guard) {
	flow := f.Flow
	flow.Engine = cmp.Or(flow.Engine, bulk.Name)
	objective := suited(flow, cmp.Or(f.Objective, metric.Objective(flow)))
	settings, _ := f.Settings()
	guards := metric.Guards(flow, objective, model.Engines(settings)...)
	if slices.ContainsFunc(f.Guards, func(g Guard) bool { return g.Name == NoGuards }) {
		guards = nil
	}
	for _, g := range f.Guards {
		for _, m := range g.metrics(flow) {
			guards = slices.DeleteFunc(guards, func(o model.Guard) bool { return o.Metric == m })
			guards = append(guards, model.Guard{Metric: m, Margin: g.Margin})
		}
	}
	return objective, append([]model.Guard{}, guards...) // never nil: nothing is left to a default
}

// metrics returns the metrics that g guards in this traffic.
func (g Guard) metrics(flow model.Flow) []model.Metric {
	if g.Name == metric.CPU {
		return []model.Metric{model.CPUPerGbitNear, model.CPUPerGbitFar}
	}
	i, ok := metric.ByName(g.Name)
	if !ok {
		return nil
	}
	return []model.Metric{suited(flow, i.ID)}
}

// suited returns the equivalent of m in this traffic: TCP loses nothing in the end, but
// retransmits what was lost.
func suited(flow model.Flow, m model.Metric) model.Metric {
	switch {
	case m == model.LossRatio && !metric.Serves(flow, m) && metric.Serves(flow, model.RetransmitRatio):
		return model.RetransmitRatio
	case m == model.RequestRate && !metric.Serves(flow, m) && metric.Serves(flow, model.ConnectRate):
		return model.ConnectRate
	}
	return m
}

// validateDecision reports an objective or a guard that the traffic does not measure, and a
// guard on the deciding metric.
func (r *report) validateDecision(f File) {
	flow := f.Flow
	flow.Engine = cmp.Or(flow.Engine, bulk.Name)
	if flow.Engine == bulk.Name && f.Has("flow.engine") && f.Flow.Engine == "" {
		return // its own mistake is reported
	}
	objective, _ := f.decides()
	has := metric.List(metric.Measured(flow))
	if !metric.Serves(flow, objective) {
		r.fault("objective", "it measures "+has, "engine %s does not measure %s", flow.Engine, metric.Name(objective))
	}
	for i, g := range f.Guards {
		path := "guards"
		if f.Has(index(path, i)) {
			path = index(path, i)
		}
		for _, m := range g.metrics(flow) {
			switch {
			case m == objective:
				r.fault(path, "name another one", "%s is what decides already", g.Name)
			case !metric.Serves(flow, m):
				r.fault(path, "it measures "+has, "engine %s does not measure %s", flow.Engine, metric.Name(m))
			}
		}
	}
}
