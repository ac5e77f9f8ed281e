package native

import (
	"errors"
	"slices"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
)

// Request returns the settings of in in the terms of system, for a format to plan, with the
// notes and omissions so far. It returns errors as Render does.
func Request(system string, in Input) (files.Request, Output, error) {
	r, err := resolve(system, in)
	if err != nil {
		return files.Request{}, Output{}, err
	}
	req := r.request()
	return req, r.out, errors.Join(r.errs...)
}

// request converts all entries.
func (r *rendering) request() files.Request {
	req := files.Request{Link: r.in.Interface, MAC: r.in.MAC, Head: r.head()}
	sysctls := r.texts(r.take(knob.Sysctl))
	if r.system != "linux" {
		sysctls = limitsFirst(sysctls) // they are set one after the other
	}
	var media []*entry
	for _, t := range sysctls {
		req.Settings = append(req.Settings, t.setting())
	}
	for _, e := range r.entries {
		switch {
		case e.used:
			continue
		case e.native.Mechanism == knob.IRQ, e.native.Mechanism == knob.Route:
			r.omit(e, "%s", noOwner(e))
		case e.native.Name == "media":
			media = append(media, e)
		default:
			req.Settings = append(req.Settings, files.Setting{Knob: e.knob.ID, Value: e.value, Name: e.native.Name, Remarks: remarks(e)})
		}
		e.used = true
	}
	for _, t := range r.texts(media) {
		req.Settings = append(req.Settings, t.setting())
	}
	return req
}

// setting converts a text with all its entries.
func (t text) setting() files.Setting {
	first := t.entries[0]
	s := files.Setting{Knob: first.knob.ID, Value: first.value, Name: t.name, Text: t.raw, AtBoot: atBoot(first)}
	for i, e := range t.entries {
		s.Remarks = append(s.Remarks, remarks(e)...)
		if i > 0 {
			s.Also = append(s.Also, model.Assignment{Knob: e.knob.ID, Value: e.value})
		}
	}
	return s
}

// remarks returns the comments above a setting.
func remarks(e *entry) []string { return append([]string{about(e)}, notes(e)...) }

// atBoot reports whether a setting belongs into loader.conf: those that the kernel reads only
// at boot, and the pools of packet buffers, which cannot shrink while the system runs
// (kern_mbuf.c).
func atBoot(e *entry) bool {
	return e.knob.EffectOn("freebsd") == knob.EffectBoot || strings.HasPrefix(string(e.knob.ID), "mbuf.")
}

// limitsFirst orders texts for a program that sets one after the other: limits
// before what they limit (knobs.md section 0, rule 3).
func limitsFirst(all []text) []text {
	slices.SortStableFunc(all, func(a, b text) int { return int(a.entries[0].knob.Stage) - int(b.entries[0].knob.Stage) })
	return all
}

// draft adds the output of a format.
func (r *rendering) draft(d files.Draft) {
	r.out.Files = append(r.out.Files, d.Files...)
	r.out.Commands = append(r.out.Commands, d.Commands...)
	r.out.Omitted = append(r.out.Omitted, d.Omitted...)
	for _, n := range d.Notes {
		r.note("%s", n)
	}
}
