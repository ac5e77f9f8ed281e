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

// errOther says that the interface of a change is gone, and another one has its
// name.
var errOther = errors.New("is another device now")

// linkOf returns the interface that a place is about, as far as the system tells;
// nil for none. What is not known is looked for by its name at undo.
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

// stillThere demands that a place is about the interface that it was about when it
// was read: another one may have got its name.
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

// find returns where the setting of an intent is now: its interface may have got
// another name, which the sentence says. The error wraps errOther where the name is
// another interface's. One that is gone has its old place: nothing is there.
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

// glance is how often awaitLinks looks for an interface.
const glance = 100 * time.Millisecond

// awaitLinks returns when the cards that open intents of an earlier start of the machine
// are about have come, or within has passed, or ctx is done. What has no permanent MAC is
// not waited for: nothing would tell it again.
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

// linking is how long a card that was told another link mode may be without a link, (p):
// renegotiation and the port of a switch take one to four seconds.
const linking = 8 * time.Second

// readBack returns what a place holds after want was written. A card that was told another
// link mode loses its link, and drivers tell no speed until it is there again.
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

// refuse says why the intents of one place are none that linerate could have made,
// "" where they are: a record may be forged or damaged. The error is for a knob that
// this linerate does not know, and which a newer one may put back.
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

// join is two sentences, of which each may be empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
