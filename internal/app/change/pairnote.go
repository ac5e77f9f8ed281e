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
	"linerate/internal/app/here"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
)

// PairNoteName is the file in the state directory of this machine that stands there
// while a change of two hosts is being kept: from before the first of them is told
// until both are. A process that is killed in between leaves it.
const PairNoteName = "confirming.json"

// pairNote is what it says.
type pairNote struct {
	Host    string             `json:"host"` // as the user named it, without secrets
	Time    time.Time          `json:"time"`
	Changes []model.Assignment `json:"changes"` // of both
}

// notePairNote writes that two hosts are about to be told to keep the change. done
// takes the note away.
func (c *change) notePairNote() (done func(), err error) {
	if len(c.changing()) < 2 || c.hosts.Named == "" {
		return func() {}, nil
	}
	dir, err := here.StateDir(c.hosts.State)
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

// readPairNote reads the note of this machine, where there is one. One that was damaged,
// though it is put in place whole, is told of once, and goes.
func readPairNote(env app.Env, state string) (name string, h pairNote, ok bool) {
	dir, err := here.StateDir(state)
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
		_ = os.Remove(name) // what cannot be removed is told again
		return name, pairNote{}, false
	}
	return name, h, true
}

// tellPairNote tells that an earlier change of two hosts was cut short while it was
// being kept, unless this machine keeps it, which is told last. Where the change
// that is open now is with the same host, it says what is left there, and the note
// has done its work.
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
	_ = os.Remove(name) // what cannot be removed is told again
}

// TellUndone tells after an undo of this machine that another host may hold the
// rest of a change that was cut short while it was being kept. An undo of that
// host, which named is without secrets, has taken it back; "" is this machine.
func TellUndone(env app.Env, named, state string) {
	name, h, ok := readPairNote(env, state)
	switch {
	case !ok:
	case named == "":
		env.Observe(app.PartlyKept{Named: h.Host, Time: h.Time})
	case named == h.Host:
		_ = os.Remove(name) // what cannot be removed is told again
	}
}

// holding are the settings of a note that a host, nil for none, holds now.
func holding(host *app.Host, h pairNote) []model.Assignment {
	var all []model.Assignment
	for _, c := range h.Changes {
		if host != nil && c.Host == host.Side && host.Value(c.Knob) == c.Value {
			all = append(all, c)
		}
	}
	return all
}
