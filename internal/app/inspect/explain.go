package inspect

import (
	"context"
	"runtime"
	"slices"
	"strings"

	"linerate/internal/app/local"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// Explanation explains one name, in the form of linerate/explain/v1.
type Explanation struct {
	Name    string             `json:"name"`              // as it was understood
	Sets    []model.Assignment `json:"sets,omitempty"`    // what a line of a guide sets, in linerate's words
	Refused []string           `json:"refused,omitempty"` // why a value of that line cannot be set
	Unknown []string           `json:"unknown,omitempty"` // words of that line that linerate does not know
	Knobs   []Page             `json:"knobs,omitempty"`   // those that it means, or that stand behind it
	Dead    []knob.Dead        `json:"dead,omitempty"`    // settings of that name that no longer exist
	Outside []knob.Outside     `json:"outside,omitempty"` // settings of that name that linerate does not set
}

// Page is what the catalogue says about one knob, and its value here.
type Page struct {
	Knob     model.KnobID    `json:"knob"`
	Summary  string          `json:"summary"`
	Scope    knob.Scope      `json:"scope"`
	Unit     string          `json:"unit"`
	Risk     int             `json:"risk"`
	RiskText string          `json:"risk_text"`
	When     string          `json:"when"`   // the symptom that calls for it
	Avoid    string          `json:"avoid"`  // when to leave it alone
	Verify   string          `json:"verify"` // how to see that a value took effect
	Source   string          `json:"source"` // of range and meaning
	Systems  []SystemPage    `json:"systems"`
	Defaults []knob.Default  `json:"defaults,omitempty"`
	Choices  []knob.Choice   `json:"choices,omitempty"`
	Value    fact.Of[string] `json:"value"` // on this machine
	SetBy    *SetBy          `json:"set_by,omitempty"`

	Of knob.Knob `json:"-"`
}

// SystemPage is a knob on one system.
type SystemPage struct {
	System    string   `json:"system"`
	Native    string   `json:"native"`
	Also      []string `json:"also,omitempty"`
	Range     string   `json:"range"` // "" for a read-only one
	Effect    string   `json:"effect"`
	Needs     []string `json:"needs,omitempty"`
	Permanent string   `json:"permanent"`
	Note      string   `json:"note"`
	Settable  bool     `json:"settable"` // by linerate set
}

// Explain returns what names mean, on this machine and elsewhere, and errors for unknown
// names.
func Explain(ctx context.Context, m *local.Machine, names []string) (all []Explanation, unknown []error) {
	x := m.Catalogue()
	if len(names) > 1 && knob.IsGuideCommand(names[0]) { // a command without quotes around it
		names = []string{strings.Join(names, " ")}
	}
	for _, name := range names {
		if name == "sysctl" || name == "sudo" { // of a pasted command
			continue
		}
		if e, ok := x.Explain(name); ok {
			all = append(all, explained(ctx, m, e))
		} else {
			unknown = append(unknown, x.UnknownError(model.KnobID(e.Name)))
		}
	}
	return all, unknown
}

// explained collects the pages of a name: of the knob itself, of those behind a native name,
// or of those that replace a dead one.
func explained(ctx context.Context, m *local.Machine, e knob.Explanation) Explanation {
	out := Explanation{Name: e.Name, Sets: e.Sets, Refused: e.Refused, Unknown: e.Unknown, Dead: slices.Clone(e.Dead), Outside: slices.Clone(e.Outside)}
	var ids []model.KnobID
	add := func(id model.KnobID) {
		ids = lists.Once(ids, id)
	}
	if e.Knob != nil {
		add(e.Knob.ID)
	} else {
		for _, u := range e.Uses {
			add(u.Knob.ID)
		}
	}
	for _, id := range e.Replaced() {
		add(id)
	}
	values, _ := m.Read(ctx, ids) // it fails only while a host recovers
	h := Host{HostFacts: model.HostFacts{OS: runtime.GOOS, Knobs: values}}
	if len(ids) > 0 {
		h.Origins, _ = m.Origins(ctx, ids) // it has no error of its own
	}
	for _, id := range ids {
		if k, ok := m.Catalogue().ByID(id); ok {
			p := page(k)
			p.Value, p.SetBy = values[id], h.setting(k, "").SetBy
			out.Knobs = append(out.Knobs, p)
		}
	}
	for i := range out.Dead {
		out.Dead[i].Source = knob.Cite(out.Dead[i].Source)
	}
	for i := range out.Outside {
		out.Outside[i].Source = knob.Cite(out.Outside[i].Source)
	}
	return out
}

// page returns what the catalogue says about a knob.
func page(k knob.Knob) Page {
	p := Page{
		Of: k, Knob: k.ID, Summary: k.Summary, Scope: k.Scope, Unit: unitOf(k), Risk: int(k.Risk), RiskText: k.Risk.Words(),
		When: k.When, Avoid: k.Avoid, Verify: k.Verify, Source: knob.Cite(k.Source),
		Systems: []SystemPage{}, Defaults: k.Defaults, Choices: k.Choices,
	}
	for _, system := range knob.Systems() {
		n, ok := k.Native[system]
		if !ok {
			continue
		}
		s := SystemPage{
			System: system, Native: n.Name, Also: n.Also, Effect: k.EffectOn(system).Words(), Needs: k.Needs(system),
			Permanent: n.Permanent(system), Note: n.Note,
			Settable: n.Mechanism != knob.NotYet && !n.ReadOnly && !k.ReadOnly && k.EffectOn(system) != knob.EffectBoot,
		}
		if !n.ReadOnly && !k.ReadOnly {
			s.Range = k.Range(system)
		}
		p.Systems = append(p.Systems, s)
	}
	return p
}

// unitOf returns the unit of a knob for display.
func unitOf(k knob.Knob) string {
	switch {
	case k.Unit != "":
		return k.Unit
	case k.Type == knob.TypeBytes:
		return "bytes"
	case k.Type == knob.TypeRate:
		return "bit/s"
	}
	return ""
}
