package config

import (
	"cmp"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/udp"
)

// said is one key of flow that belongs only to some engines, whether or not the file names one of
// them.
type said struct{ key, path, text string }

// trafficFields returns the keys of flow that belong only to some engines.
func (r *reader) trafficFields() []field {
	var out []field
	for _, k := range r.f.Kinds {
		for _, o := range k.Options {
			if slices.ContainsFunc(out, func(f field) bool { return f.key == o.Name }) {
				continue // engines may share a key
			}
			out = append(out, field{o.Name, func(n ast.Node, path string) {
				if text, ok := r.text(n, path); ok {
					r.said = append(r.said, said{o.Name, path, text})
				}
			}})
		}
	}
	return out
}

// engine sets the parameters of the flow's engine from the file.
func (r *reader) engine() {
	f := &r.f.Flow
	kind, _ := r.f.Kinds.ByName(cmp.Or(f.Engine, bulk.Name))
	f.Params = kind.Initial
	r.own()
	for _, s := range r.said { // of another engine, which validateEngine reports; check their values anyway
		if k, o, ok := r.f.Kinds.Owner(s.key); ok {
			other := model.Flow{Engine: k.Name, Params: k.Initial}
			if err := o.Set(&other, s.text); err != nil {
				r.badValue(s.path, err)
			}
		}
	}
}

// own sets the options of the flow's engine: first its own, then those of the load that it
// contains, which the first may have chosen.
func (r *reader) own() {
	f := &r.f.Flow
	kind, _ := r.f.Kinds.ByName(cmp.Or(f.Engine, bulk.Name))
	r.say(func(key string) (traffic.Option, bool) {
		_, o, ok := traffic.Kinds{kind}.Owner(key)
		return o, ok
	})
	r.say(func(key string) (traffic.Option, bool) { return r.f.Kinds.Option(*f, key) })
	for _, s := range r.said {
		if s.key == "rate" && udp.Carries(*f) {
			r.applyFlowKnob(s.path, "rate", s.text)
		}
	}
}

// say sets and consumes the options that find knows.
func (r *reader) say(find func(key string) (traffic.Option, bool)) {
	r.said = slices.DeleteFunc(r.said, func(s said) bool {
		o, ok := find(s.key)
		if !ok {
			return false
		}
		if err := o.Set(&r.f.Flow, s.text); err != nil {
			r.badValue(s.path, err)
		}
		return true
	})
}

// validateEngine reports options that do not fit the flow's engine.
func (r *report) validateEngine(f File) {
	engine := cmp.Or(f.Flow.Engine, bulk.Name)
	if f.Flow.Engine == "" && f.Has("flow.engine") {
		return // its own mistake is reported
	}
	foreign := func(key string, k traffic.Kind) {
		r.fault(join("flow", key), r.chosen(join("flow", key), k), "%s belongs to %s, not to engine %s", key, k.Called(), engine)
	}
	if k, _ := f.Kinds.ByName(udp.Name); f.Has("flow.rate") && !udp.Carries(f.Flow) {
		foreign("rate", k)
	}
	seen := map[string]bool{}
	for _, k := range f.Kinds {
		for _, o := range k.Options {
			if _, mine := f.Kinds.Option(f.Flow, o.Name); !mine && !seen[o.Name] && f.Has(join("flow", o.Name)) {
				foreign(o.Name, k)
			}
			seen[o.Name] = true
		}
	}
	if engine == requests.Name && f.Flow.Bytes > 0 {
		r.fault("flow.bytes", "give a duration", "requests end after a time, not after bytes")
	}
	for _, k := range []struct {
		knob  model.KnobID
		given bool
	}{{"mss", f.Flow.MSS != 0}, {"nodelay", f.Flow.Nagle}, {"congestion", f.Flow.Congestion != ""}} {
		if k.given {
			r.knobOfEngine(f, join("flow", string(k.knob)), k.knob)
		}
	}
	for i, factor := range f.Factors {
		r.knobOfEngine(f, index("factors", i), factor.Knob)
	}
	for i, s := range f.Named {
		for _, a := range s.Assignments {
			if a.Host == "" {
				r.knobOfEngine(f, join(index("settings", i), "set")+"["+string(a.Knob)+"]", a.Knob)
			}
		}
	}
}

// knobOfEngine reports a flow knob that its engine does not have.
func (r *report) knobOfEngine(f File, path string, id model.KnobID) {
	k, _, own := f.Kinds.Owner(string(id))
	_, mine := f.Kinds.Option(f.Flow, string(id))
	datagrams := udp.Carries(f.Flow)
	switch {
	case id == "rate" && !datagrams:
		k, _ = f.Kinds.ByName(udp.Name)
	case datagrams && slices.Contains([]model.KnobID{"mss", "nodelay", "congestion"}, id):
		r.fault(path, "leave it out", "%s belongs to TCP, not to UDP", id)
		return
	case !own || mine:
		return
	}
	r.fault(path, r.chosen(path, k), "%s belongs to %s, not to engine %s", id, k.Called(), cmp.Or(f.Flow.Engine, bulk.Name))
}

// chosen says how to choose a kind of traffic at path: in a file, or by a flag.
func (r *report) chosen(path string, k traffic.Kind) string {
	if _, file := r.at[""]; file && r.flags[path] == "" {
		return "write engine: " + k.Name
	}
	return "add " + k.Chosen()
}

// parseEngine parses the name of an engine that plans can compare.
func (r *reader) parseEngine(s string) (string, error) {
	k, known := r.f.Kinds.ByName(s)
	switch {
	case known && k.Command == "":
		return s, nil
	case known:
		return "", bad(k.Why, "use linerate "+k.Command)
	}
	return "", bad("unknown engine "+quote(s), didYouMean(s, r.f.Kinds.Names()))
}

// runLength returns the shortest length of a run of f.
func runLength(f File) time.Duration {
	return max(0, cmp.Or(f.Settle, stats.DefaultSettle)) + f.Flow.Length() + f.Cooldown
}
