package inspect

import (
	"linerate/internal/app/change"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
)

// Comparison compares a profile with a host; its JSON is linerate/profilediff/v1.
type Comparison struct {
	Host     string               `json:"host"`
	Role     profile.Role         `json:"role"`
	Settings []profile.Difference `json:"settings"`
	Same     bool                 `json:"same"`     // all of them
	Doubts   []string             `json:"doubts"`   // why the evidence may not apply there
	Conflict []string             `json:"conflict"` // why the values may not be set there
}

// Compare compares the settings of h with those of the host whose facts are f.
func Compare(h profile.Host, f model.HostFacts) Comparison {
	c := Comparison{Host: f.Name, Role: h.Role, Settings: h.Diff(f.Knobs), Same: true, Doubts: append([]string{}, h.Doubts(f)...), Conflict: []string{}}
	for _, s := range c.Settings {
		c.Same = c.Same && s.Same
	}
	before := knob.Values{}
	for id, v := range f.Knobs {
		if text, ok := v.Get(); ok {
			before[id] = text
		}
	}
	for _, v := range knob.Violations(f.OS, before, change.Assignments(h)) {
		c.Conflict = append(c.Conflict, v.Error())
	}
	return c
}
