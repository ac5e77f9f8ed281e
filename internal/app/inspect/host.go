// Package inspect reads one host and changes nothing: its facts, its settings and the files
// that set them, how a profile compares with them, and what a name of a setting means there.
package inspect

import (
	"cmp"
	"context"
	"errors"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/keep"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// Host is a host as read.
type Host struct {
	model.HostFacts
	Link    string // the link that settings of a link are of; "" if none is known
	Origins map[model.KnobID]model.FileLine
	Kept    map[model.KnobID]fingerprint.Standing // what linerate keep wrote

	Catalogue *knob.Index
}

// Near reads this machine's settings and their origins: those of link and its route, or of
// the default route if link is "".
func Near(ctx context.Context, m *local.Machine, link string) (h Host, err error) {
	if link != "" {
		if err := local.LinkExists(link); err != nil {
			return h, err
		}
	}
	if h.HostFacts, err = m.WayOut(ctx); err != nil {
		return h, err
	}
	h.Link, h.Catalogue = cmp.Or(link, h.Interface.Or("")), m.Catalogue()
	if records, err := m.Kept(); err == nil { // without the right to read them the rest is still shown
		h.keepsAll(records)
	}
	h.Origins, err = m.Origins(ctx, local.KnobIDs(h.Catalogue))
	return h, err
}

// Far reads the host that named describes; with origins also what sets its settings, if the
// host can tell. For a lab it reads the far host.
func Far(ctx context.Context, env app.Env, o *target.Opener, named string, origins bool) (h Host, err error) {
	near, far, err := target.Pair("", named, env)
	if err != nil {
		return h, err
	}
	if far.Kind == target.Foreign {
		return h, fault.WithHint(fault.Usagef("%s reports nothing about its host but what it measures", far),
			"to read that host, reach it over ssh, as in user@host, or start linerate serve there")
	}
	e, err := o.Open(ctx, near, far)
	if err != nil {
		return h, err
	}
	defer e.Close()
	h.HostFacts = e.Hosts[1]
	h.Link, h.Catalogue = h.Interface.Or(""), env.Catalogue
	switch {
	case e.InLab: // its files are this machine's, which set nothing in it
		h.Name = "far"
	case origins && e.Far != nil:
		h.Origins, err = e.Far.Origins(ctx, local.KnobIDs(h.Catalogue))
		h.standing(ctx, e)
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil // leave it unknown
		}
	}
	return h, err
}

// standing notes the state of the settings kept on the far host: none if the host does not
// list them, because of missing rights or its age.
func (h *Host) standing(ctx context.Context, e *target.Ends) {
	records, err := e.Far.Kept(ctx)
	if err != nil {
		return
	}
	now := fingerprint.Take(e.Hosts, fact.Unknown[time.Duration]("not measured"))
	for _, k := range keep.Standing(records, model.Far) {
		h.keeps(k.Look(now))
	}
}

func (h *Host) keeps(s fingerprint.Standing) {
	if h.Kept == nil {
		h.Kept = make(map[model.KnobID]fingerprint.Standing)
	}
	h.Kept[s.Knob] = s
}

// keepsAll notes the state of the settings that records of this machine keep.
func (h *Host) keepsAll(records []session.KeptRecord) {
	facts := h.HostFacts
	facts.Host = model.Near
	for _, k := range keep.Standing(records, model.Near) {
		h.keeps(k.Look(fingerprint.TakeAlone(facts, k.Proof.Print)))
	}
}
