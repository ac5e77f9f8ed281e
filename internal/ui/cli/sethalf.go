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

	"linerate/internal/core/model"
)

// halfName is the file in the state directory of this machine that stands there
// while a change of two hosts is being kept: from before the first of them is told
// until both are. A process that is killed in between leaves it.
const halfName = "confirming.json"

// half is what it says.
type half struct {
	Host    string             `json:"host"` // as the user named it, without secrets
	Time    time.Time          `json:"time"`
	Changes []model.Assignment `json:"changes"` // of that host
}

// noteHalf writes that two hosts are about to be told to keep the change. done
// takes the note away.
func (s *setting) noteHalf() (done func(), err error) {
	far := s.end(model.Far)
	if len(s.changing()) < 2 || s.pair.lab != nil {
		return func() {}, nil
	}
	dir, err := stateDir(s.flags.state)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(half{Host: redact(s.pair.farText), Time: s.app.Now().UTC().Round(0), Changes: far.wanted})
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, halfName)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return nil, fmt.Errorf("note that the change is being kept: %w", err)
	}
	return func() {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.app.talk("linerate: %v", err)
		}
	}, nil
}

// tellHalf says that an earlier change of two hosts was cut short while it was
// being kept. Where the change that is open now is with the same host, it says
// what is left there, and the note has done its work.
func (s *setting) tellHalf() {
	dir, err := stateDir(s.flags.state)
	if err != nil {
		return
	}
	name := filepath.Join(dir, halfName)
	text, err := os.ReadFile(name)
	if err != nil {
		return
	}
	var h half
	if err := json.Unmarshal(text, &h); err != nil || h.Host == "" {
		return // cut off while it was written: nobody was told anything yet
	}
	far := s.end(model.Far)
	if s.pair == nil || far == nil || redact(s.pair.farText) != h.Host {
		s.app.talk("note: a change of %s and this machine was cut short on %s while it was being kept: it is undone here, %s may hold it: linerate undo %s",
			h.Host, h.Time.Local().Format(time.DateTime), h.Host, h.Host)
		return
	}
	now := far.values()
	var left []string
	for _, c := range h.Changes {
		if now[c.Knob] == c.Value {
			left = append(left, fmt.Sprintf("%s=%s", c.Knob, formatKnob(c.Knob, c.Value)))
		}
	}
	if len(left) > 0 {
		s.app.talk("note: a change of %s and this machine was cut short on %s while it was being kept: %s still holds %s, this machine does not: linerate undo %s takes it back there",
			h.Host, h.Time.Local().Format(time.DateTime), far.name, strings.Join(left, ", "), h.Host)
	}
	_ = os.Remove(name) // told; what cannot be removed is told again
}
