package inspect

import (
	"strings"

	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// Setting is one knob as a host holds it; its JSON is linerate/knobs/v1.
type Setting struct {
	Knob     model.KnobID    `json:"knob"`
	Scope    knob.Scope      `json:"scope"`
	Theme    string          `json:"theme"`
	Summary  string          `json:"summary"`
	Value    fact.Of[string] `json:"value"`
	Default  string          `json:"default,omitempty"`
	Range    string          `json:"range,omitempty"`
	SetBy    *SetBy          `json:"set_by,omitempty"`
	Kept     *Kept           `json:"kept,omitempty"`
	Native   string          `json:"native,omitempty"`
	Effect   knob.Effect     `json:"effect,omitempty"`
	Risk     int             `json:"risk"`
	ReadOnly bool            `json:"read_only"`

	Of knob.Knob `json:"-"`
}

// SetBy is the line of a permanent file that sets a knob.
type SetBy struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Value string `json:"value"` // canonical, or native if it cannot be parsed
}

// Kept is the state of a setting that linerate keep wrote.
type Kept struct {
	Value string            `json:"value"`           // canonical
	State fingerprint.State `json:"state"`           // as far as fingerprints can show
	Text  string            `json:"text"`            // for people
	Proof string            `json:"proof,omitempty"` // session; "" if it was not measured
}

// Settings returns the settings whose name, native name or summary contains match, by theme;
// with all also those that h's system does not have.
func (h Host) Settings(match string, all bool) []Setting {
	var rows []Setting
	for _, theme := range knob.Themes() {
		for _, id := range theme.Knobs {
			k, _ := h.Catalogue.ByID(id)
			if _, here := k.Native[h.OS]; !here && k.Scope != knob.ScopeFlow && !all || !matches(k, match) {
				continue
			}
			rows = append(rows, h.setting(k, theme.Name))
		}
	}
	return rows
}

func (h Host) setting(k knob.Knob, theme string) Setting {
	n := k.Native[h.OS]
	k = k.From(h.Knobs[k.ID].Source())
	r := Setting{
		Of: k, Knob: k.ID, Scope: k.Scope, Theme: theme, Summary: k.Summary, Effect: k.EffectOn(h.OS), Risk: int(k.Risk),
		ReadOnly: k.ReadOnly || n.ReadOnly, Default: k.DefaultOn(h.OS, h.Kernel.Or("")),
	}
	if v, err := k.Parse(r.Default); err == nil { // other defaults are rules: "by memory"
		r.Default = k.Format(v)
	}
	if !r.ReadOnly {
		r.Range = k.Range(h.OS)
	}
	v, ok := h.Knobs[k.ID]
	switch {
	case k.Scope == knob.ScopeFlow:
		r.Value = fact.Unknown[string]("set by each run")
	case !ok:
		r.Value = fact.Unknown[string]("not read")
	default:
		r.Value, r.Native = v, v.Source()
	}
	if s, ok := h.Kept[k.ID]; ok {
		r.Kept = &Kept{Value: s.Value, State: s.State, Text: s.String(), Proof: s.Kept.Proof.Session}
	}
	if l, ok := h.Origins[k.ID]; ok {
		r.SetBy = &SetBy{File: l.File, Line: l.Number, Value: l.Text}
		if v, err := k.Decode(h.OS, l.Text); err == nil {
			r.SetBy.Value = v
		}
	}
	return r
}

// matches reports whether a knob's name, native name or summary contains text.
func matches(k knob.Knob, text string) bool {
	text = strings.ToLower(text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if has(string(k.ID)) || has(k.Summary) {
		return true
	}
	for _, n := range k.Native {
		if has(n.Name) || has(strings.ReplaceAll(n.Name, ".", "/")) {
			return true
		}
	}
	return false
}
