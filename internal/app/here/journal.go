package here

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"linerate/internal/app"
	"linerate/internal/core/lists"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
	"linerate/internal/host/journal"
	"linerate/internal/host/watchdog"
)

// StateDir is dir, or the system's place for linerate's state. Root has it only
// where nobody else may write: it does what the files there say.
func StateDir(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = journal.DefaultDir(); err != nil {
			return "", err
		}
	}
	return dir, durable.Trusted(dir)
}

// Lines returns a writer that passes on, as app.HostSaid, the lines in which a
// watchdog or an agent says something to a person. host is "" for this machine.
func Lines(env app.Env, host string) io.Writer {
	return watchdog.BootLines(writer(func(line string) { env.Observe(app.HostSaid{Host: host, Line: line}) }))
}

type writer func(line string)

// Write takes one line.
func (w writer) Write(line []byte) (int, error) {
	w(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// Tell says in one line what is wrong with an undo on this machine.
func Tell(env app.Env, err error) {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
	env.Observe(app.HostSaid{Line: watchdog.UndoMark + text})
}

// TellJournal says what a person has to know of this machine's journal.
func TellJournal(env app.Env, state string) {
	if err := JournalFault(state); err != nil {
		Tell(env, err)
	}
}

// JournalFault is why the journal of this machine does not tell all that linerate
// has changed; nil where it does, or where it may not be read.
func JournalFault(state string) error {
	// Without a directory there is no journal; of one that may not be read who wants
	// to undo is told; with somebody else's nothing is done.
	var kept []string
	dir, err := StateDir(state)
	if err == nil {
		var damage []journal.Damage
		if _, damage, err = journal.Read(dir); errors.Is(err, journal.ErrNewer) {
			return err
		}
		if err == nil {
			kept, err = journal.Unacknowledged(dir)
		}
		if err == nil && len(damage) > 0 {
			kept = append(kept, journal.Files(dir)...)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	names := lists.Each(kept, filepath.Base)
	return fmt.Errorf("%w, a setting may be changed that linerate no longer knows of: see %s in %s, then run linerate undo --acknowledge",
		journal.ErrDamaged, strings.Join(names, ", "), dir)
}

// UndoFault gives an error of an undo its exit code: a host may hold a changed
// setting as long as somebody else holds the journal, or as it does not tell.
func UndoFault(err error) error {
	_, stuck := errors.AsType[*watchdog.StuckError](err)
	if stuck || errors.Is(err, journal.ErrLocked) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNewer) {
		return fault.WithKind(fault.NotUndone, err)
	}
	return err
}

// Acknowledge notes that a person has seen what was damaged of the journal of
// this machine, and returns the files, which stay.
func Acknowledge(version, state string) ([]string, error) {
	dir, err := StateDir(state)
	if err != nil {
		return nil, err
	}
	_, damage, err := journal.Read(dir)
	if err != nil {
		return nil, err
	}
	if len(damage) > 0 { // nobody has kept it yet
		j, err := journal.OpenAs(dir, version)
		if err != nil {
			return nil, err
		}
		if err := j.Close(); err != nil {
			return nil, err
		}
	}
	return journal.Acknowledge(dir)
}

// acknowledge is what an agent does first that was told of a damaged journal.
func acknowledge(env app.Env, o Options) {
	if !o.Acknowledge {
		return
	}
	files, err := Acknowledge(env.Version, o.State)
	for _, path := range files {
		Tell(env, fmt.Errorf("acknowledged, and kept as %s", path))
	}
	if err != nil {
		Tell(env, err)
	}
}
