package change

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
)

// PairNoteName is a file in the state directory of this machine. It exists while a change of
// two hosts is being confirmed: from before the first confirms until both have. A process
// that is killed in between leaves it.
const PairNoteName = "confirming.json"

// pairNote is the content of that file.
type pairNote struct {
	Host    string             `json:"host"` // as the user named it, without secrets
	Time    time.Time          `json:"time"`
	Changes []model.Assignment `json:"changes"` // of both
}

// notePairNote writes the pair note before two hosts confirm a change. done removes it.
func (c *change) notePairNote() (done func(), err error) {
	if len(c.changing()) < 2 || c.hosts.Named == "" {
		return func() {}, nil
	}
	dir, err := local.StateDir(c.hosts.State)
	if err != nil {
		return nil, err
	}
	h := pairNote{Host: c.hosts.Named, Time: c.Now().UTC().Round(0)}
	for _, e := range c.changing() {
		h.Changes = append(h.Changes, e.wanted...)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, PairNoteName)
	if err := durable.Replace(durable.OS{}, name, text, 0o600); err != nil {
		return nil, fmt.Errorf("note that the change is being kept: %w", err)
	}
	return func() {
		err := os.Remove(name)
		if err == nil {
			err = durable.SyncDir(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Observe(app.Trouble{Err: err})
		}
	}, nil
}

// readPairNote reads the note of this machine, if there is one. A damaged note, though notes
// are written atomically, is reported once and removed.
func readPairNote(env app.Env, state string) (name string, h pairNote, ok bool) {
	dir, err := local.StateDir(state)
	if err != nil {
		return "", pairNote{}, false
	}
	name = filepath.Join(dir, PairNoteName)
	durable.Discard(durable.OS{}, name)
	text, err := os.ReadFile(name)
	if err != nil {
		return name, pairNote{}, false
	}
	if err := json.Unmarshal(text, &h); err != nil || h.Host == "" {
		env.Observe(app.Trouble{Err: fmt.Errorf("%s: the note of a change that was being kept on two hosts is damaged: one of them may hold it: linerate undo, and linerate undo HOST, take it back", name)})
		_ = os.Remove(name) // if it cannot be removed, the next change reports it again
		return name, pairNote{}, false
	}
	return name, h, true
}

// tellPairNote reports an earlier change of two hosts that was cut short while they confirmed
// it, unless this machine, which confirms last, kept it. If the current change is with the
// same host, it reports what that host still holds, and removes the note.
func (c *change) tellPairNote() {
	name, h, ok := readPairNote(c.Env, c.hosts.State)
	if !ok {
		return
	}
	here, there := holding(c.hosts.Near, h), holding(c.hosts.Far, h)
	known := c.hosts.Far != nil && c.hosts.Named == h.Host
	switch {
	case len(here) == 0 && !known:
		c.Observe(app.PartlyKept{Named: h.Host, Time: h.Time, Gone: true})
		return
	case len(here) == 0 && len(there) > 0:
		c.Observe(app.PartlyKept{Named: h.Host, Time: h.Time, Far: c.hosts.Far.Name, Holds: there, Gone: true})
	}
	_ = os.Remove(name) // if it cannot be removed, the next change reports it again
}

// TellUndone reports, after an undo on this machine, that another host may still hold its
// half of a change that was cut short while being confirmed. named is the host of the undo,
// without secrets, "" for this machine; an undo on that other host has removed its half.
func TellUndone(env app.Env, named, state string) {
	name, h, ok := readPairNote(env, state)
	switch {
	case !ok:
	case named == "":
		env.Observe(app.PartlyKept{Named: h.Host, Time: h.Time})
	case named == h.Host:
		_ = os.Remove(name) // if it cannot be removed, the next change reports it again
	}
}

// holding returns the settings of a note that a host holds now; a nil host holds none.
func holding(host *app.Host, h pairNote) []model.Assignment {
	var all []model.Assignment
	for _, c := range h.Changes {
		if host != nil && c.Host == host.Side && host.Value(c.Knob) == c.Value {
			all = append(all, c)
		}
	}
	return all
}
