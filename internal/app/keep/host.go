package keep

import (
	"cmp"
	"errors"
	"slices"

	"linerate/internal/app"
	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
)

// faults returns everything that is wrong with keeping the settings on a host. A setting that
// is read only at boot may be kept, although it cannot be tried.
func (h *Host) faults(x *knob.Index) []error {
	if h.Facts.OS == "windows" {
		return nil // the host gets instructions instead
	}
	before := make(knob.Values)
	for id, f := range h.Facts.Knobs {
		if text, ok := f.Get(); ok {
			before[id] = text
		}
	}
	var errs []error
	for _, err := range x.Faults(h.Facts.OS, before, h.Ask.Settings) {
		var about *knob.Error
		if errors.As(err, &about) && AtBootOnly(x, about.Knob, h.Facts.OS) {
			continue
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errs
	}
	for _, s := range h.Ask.Settings {
		if f := h.Facts.Knobs[s.Knob]; !f.IsKnown() && !AtBootOnly(x, s.Knob, h.Facts.OS) {
			errs = append(errs, app.Missing(cmp.Or(f.Reason(), string(s.Knob)+" is not known there")))
		}
	}
	return errs
}

// AtBootOnly reports whether a system reads a knob only at boot.
func AtBootOnly(x *knob.Index, id model.KnobID, system string) bool {
	k, ok := x.ByID(id)
	n, has := k.Native[system]
	return ok && has && !k.ReadOnly && !n.ReadOnly && n.Mechanism != knob.NotYet && k.EffectOn(system) == knob.EffectBoot
}

// Running is a kept setting with the host's present value.
type Running struct {
	Knob model.KnobID `json:"knob"`
	Kept string       `json:"kept"`
	Now  *string      `json:"now"` // null: not known
	Same bool         `json:"same"`
}

// Running compares the kept settings with the values in force.
func (h *Host) Running() []Running {
	var all []Running
	part := profile.Host{}
	for _, s := range slices.Concat(h.Ask.Settings, h.Got.Added) {
		if !slices.ContainsFunc(h.Got.Omitted, func(o model.Omission) bool { return o.Knob == s.Knob }) {
			part.Settings = append(part.Settings, profile.Setting{Knob: s.Knob, Value: s.Value})
		}
	}
	for _, d := range part.Diff(h.Facts.Knobs) {
		one := Running{Knob: d.Knob, Kept: d.Want, Same: d.Same}
		if v, ok := d.Now.Get(); ok {
			one.Now = &v
		}
		all = append(all, one)
	}
	return all
}

// Written returns the paths of the files that were written.
func (h *Host) Written() []string {
	var all []string
	for _, f := range h.Got.Files {
		if h.Done && f.Change != session.FileSame {
			all = append(all, f.Path)
		}
	}
	return all
}
