// Package inspect is what one host holds, looked at and not changed: its facts, its
// settings with the files that set them, a profile beside them, and what a name of a
// setting means there.
package inspect

import (
	"cmp"
	"context"
	"errors"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// Host is a host as it was read.
type Host struct {
	model.HostFacts
	Link    string // whose settings of a link they are; "" where none is known
	Origins map[model.KnobID]model.FileLine

	Catalogue *knob.Index
}

// Near reads this machine's settings and what sets them: those of link and its route,
// or of the way out where link is "".
func Near(ctx context.Context, m *here.Machine, link string) (h Host, err error) {
	if link != "" {
		if err := here.LinkExists(link); err != nil {
			return h, err
		}
	}
	if h.HostFacts, err = m.WayOut(ctx); err != nil {
		return h, err
	}
	h.Link, h.Catalogue = cmp.Or(link, h.Interface.Or("")), m.Catalogue()
	h.Origins, err = m.Origins(ctx, here.KnobIDs(h.Catalogue))
	return h, err
}

// Far reads the host that named is the text of, with origins also what sets its
// settings, where it can tell. Of a lab that is host b.
func Far(ctx context.Context, env app.Env, o *reach.Opener, named string, origins bool) (h Host, err error) {
	near, far, err := reach.Pair("", named, env)
	if err != nil {
		return h, err
	}
	if far.Kind == reach.Foreign {
		return h, app.WithHint(app.Usagef("%s tells nothing of its host but what it measures", far),
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
		h.Name = "lab host b"
	case origins && e.Far != nil:
		h.Origins, err = e.Far.Origins(ctx, here.KnobIDs(h.Catalogue))
		if errors.Is(err, errors.ErrUnsupported) {
			err = nil // not known, then
		}
	}
	return h, err
}
