package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/app/here"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
)

// halfName is the file in the state directory of this machine that stands there
// while a change of two hosts is being kept: from before the first of them is told
// until both are. A process that is killed in between leaves it.
const halfName = "confirming.json"

// half is what it says.
type half struct {
	Host    string             `json:"host"` // as the user named it, without secrets
	Time    time.Time          `json:"time"`
	Changes []model.Assignment `json:"changes"` // of both
}

// noteHalf writes that two hosts are about to be told to keep the change. done
// takes the note away.
func (s *setting) noteHalf() (done func(), err error) {
	if len(s.changing()) < 2 || s.pair.lab != nil {
		return func() {}, nil
	}
	dir, err := here.StateDir(s.flags.state)
	if err != nil {
		return nil, err
	}
	h := half{Host: redact(s.pair.farText), Time: s.app.Now().UTC().Round(0)}
	for _, e := range s.changing() {
		h.Changes = append(h.Changes, e.wanted...)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, halfName)
	if err := durable.Replace(name, text, 0o600); err != nil {
		return nil, fmt.Errorf("note that the change is being kept: %w", err)
	}
	return func() {
		err := os.Remove(name)
		if err == nil {
			err = durable.SyncDir(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.app.talk("linerate: %v", err)
		}
	}, nil
}

// tellHalf says that an earlier change of two hosts was cut short while it was
// being kept, unless this machine keeps it, which is told last. Where the change
// that is open now is with the same host, it says what is left there, and the note
// has done its work.
func (s *setting) tellHalf() {
	dir, err := here.StateDir(s.flags.state)
	if err != nil {
		return
	}
	name := filepath.Join(dir, halfName)
	durable.Discard(name)
	text, err := os.ReadFile(name)
	if err != nil {
		return
	}
	var h half
	if err := json.Unmarshal(text, &h); err != nil || h.Host == "" {
		return // no note of this program, which puts it in place whole
	}
	here, there := s.holding(h, model.Near), s.holding(h, model.Far)
	known := s.pair != nil && redact(s.pair.farText) == h.Host
	when, undo := h.Time.Local().Format(time.DateTime), "linerate undo "+quoteArg(h.Host)
	switch {
	case len(here) == 0 && !known:
		s.app.talk("note: a change of %s and this machine was cut short on %s while it was being kept: it is not in place here, %s may hold it: %s", h.Host, when, h.Host, undo)
		return
	case len(here) == 0 && len(there) > 0:
		s.app.talk("note: a change of %s and this machine was cut short on %s while it was being kept: %s still holds %s, this machine does not: %s takes it back there",
			h.Host, when, s.nameOf(model.Far), strings.Join(there, ", "), undo)
	}
	_ = os.Remove(name) // what cannot be removed is told again
}

// undoneHalf says after an undo of this machine that another host may hold the
// rest of a change that was cut short while it was being kept. An undo of that
// host has taken it back.
func (a *console) undoneHalf(args []string, state string) {
	dir, err := here.StateDir(state)
	if err != nil {
		return
	}
	name := filepath.Join(dir, halfName)
	text, err := os.ReadFile(name)
	if err != nil {
		return
	}
	var h half
	switch {
	case json.Unmarshal(text, &h) != nil || h.Host == "":
		return // as in tellHalf
	case len(args) == 0:
		a.talk("note: a change of %s and this machine was cut short on %s while it was being kept: %s may hold it: linerate undo %s",
			h.Host, h.Time.Local().Format(time.DateTime), h.Host, quoteArg(h.Host))
	case redact(args[0]) == h.Host:
		_ = os.Remove(name) // what cannot be removed is told again
	}
}

// holding are the settings of a note that a host holds now.
func (s *setting) holding(h half, host model.Host) []string {
	e := s.end(host)
	if e == nil && s.pair != nil {
		i := map[model.Host]int{model.Near: 0, model.Far: 1}[host]
		e = &setEnd{facts: s.pair.hosts[i]}
	}
	if e == nil {
		return nil
	}
	now := e.values()
	var all []string
	for _, c := range h.Changes {
		if c.Host == host && now[c.Knob] == c.Value {
			all = append(all, fmt.Sprintf("%s=%s", c.Knob, formatKnob(c.Knob, c.Value)))
		}
	}
	return all
}

// quoteArg is a word as a shell takes it.
func quoteArg(s string) string {
	if strings.ContainsAny(s, " \t\"$&;|<>(){}*?#~`\\") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
