package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/knob/linkid"
)

// errOther reports that the interface of a change is gone, and another one has its name.
var errOther = errors.New("is another device now")

// linkOf returns the interface of a place, as far as the system reports it; nil for none. An
// unknown one is looked up by its name at undo.
func (m *machine) linkOf(id model.KnobID, p hostknob.Place) *linkid.ID {
	name := m.host.LinkOf(id, p)
	if name == "" {
		return nil
	}
	links, err := m.sys.links()
	if err != nil {
		return nil
	}
	if i := slices.IndexFunc(links, func(l linkid.ID) bool { return l.Name == name }); i >= 0 {
		return &links[i]
	}
	return nil
}

// stillThere returns an error unless a place still belongs to the interface that it belonged
// to when it was read: another one may have taken the name.
func (m *machine) stillThere(id model.KnobID, h *held) error {
	if h.link == nil {
		return nil
	}
	now := m.linkOf(id, h.place)
	switch {
	case now == nil:
		return fmt.Errorf("%s (%s): %s is gone, or has another name: %w", id, h.place, h.link.Name, fs.ErrNotExist)
	case now.Key() != h.link.Key():
		return fmt.Errorf("%s (%s): %s %w: it was %s, it is %s", id, h.place, h.link.Name, errOther, h.link, now)
	}
	return nil
}

// find returns the present place of an intent's setting: its interface may have been renamed,
// which moved says. The error wraps errOther if another interface has the name. If the
// interface is gone, find returns the old place, where nothing is.
func (m *machine) find(o journal.Unfinished) (p hostknob.Place, moved string, err error) {
	if o.Link == nil {
		return o.Place, "", nil
	}
	links, err := m.sys.links()
	if err != nil {
		return o.Place, "", err
	}
	now, err := o.Link.Find(links, o.Origin.SameBoot(m.origin) && o.Origin.SameNamespace(m.origin))
	if err != nil {
		i := slices.IndexFunc(links, func(l linkid.ID) bool { return l.Name == o.Link.Name })
		if i < 0 {
			return o.Place, "", nil
		}
		return o.Place, "", fmt.Errorf("%s %w: it was %s, it is %s; left alone", o.Link.Name, errOther, o.Link, links[i])
	}
	if now.Name == m.host.LinkOf(o.Knob, o.Place) {
		return o.Place, "", nil
	}
	p, err = m.host.Elsewhere(o.Knob, o.Place, now.Name)
	return p, fmt.Sprintf("%s is called %s now", o.Link.Name, now.Name), err
}

// glance is the interval at which awaitLinks looks for an interface.
const glance = 100 * time.Millisecond

// awaitLinks waits until the interfaces of open intents of an earlier boot exist, for at most
// within, or until ctx is done. It does not wait for interfaces without a permanent MAC,
// which could not be recognized.
func awaitLinks(ctx context.Context, open []journal.Unfinished, within time.Duration, sys *system) {
	here := sys.origin()
	open = slices.DeleteFunc(slices.Clone(open), func(o journal.Unfinished) bool {
		return o.Link == nil || o.Link.MAC == "" || o.Origin.SameBoot(here)
	})
	absent := func() bool {
		links, err := sys.links() // what cannot be listed yet may be there a moment later
		return slices.ContainsFunc(open, func(o journal.Unfinished) bool {
			_, missing := o.Link.Find(links, false)
			return err != nil || missing != nil
		})
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for ctx.Err() == nil && absent() {
		select {
		case <-ctx.Done():
		case <-time.After(glance):
		}
	}
}

// linking is how long a card may be without a link after its link mode was set, (p):
// renegotiation and the port of a switch take one to four seconds.
const linking = 8 * time.Second

// readBack returns what a place holds after want was written. A card loses its link when its
// link mode is set, and drivers report no speed until the link is back.
func (m *machine) readBack(ctx context.Context, id model.KnobID, p hostknob.Place, want string) (string, error) {
	until := time.Now().Add(linking)
	for {
		got, err := m.host.ReadRaw(ctx, id, p)
		if err != nil || !knob.ModeUntold(want, got) || ctx.Err() != nil || !time.Now().Before(until) {
			return got, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(glance):
		}
	}
}

// refuse returns why linerate cannot have made the intents of one place, "" if it can: a
// record may be forged or damaged. The error is for a knob that this linerate does not know,
// and that a newer one may restore.
func (m *machine) refuse(group []journal.Unfinished) (why string, err error) {
	group, _ = chain(group)
	for _, o := range group {
		if err := m.host.Belongs(o.Knob, o.Place, group[0].Old); err != nil {
			if _, known := m.host.Index.ByID(o.Knob); known {
				return err.Error(), nil
			}
			return err.Error(), err
		}
	}
	return "", nil
}

// join joins two sentences, either of which may be empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
