package local

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

// StateDir returns dir, or by default the system's place for linerate's state. It returns an
// error for root if others may write there: linerate does what the files there say.
func StateDir(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = journal.DefaultDir(); err != nil {
			return "", err
		}
	}
	return dir, durable.Trusted(dir)
}

// Lines returns a writer that passes on, as app.HostSaid, the message lines of a watchdog or
// an agent. host is "" for this machine.
func Lines(env app.Env, host string) io.Writer {
	return watchdog.BootLines(writer(func(line string) { env.Observe(app.HostSaid{Host: host, Line: line}) }))
}

type writer func(line string)

// Write takes one line.
func (w writer) Write(line []byte) (int, error) {
	w(strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

// Tell reports in one line what is wrong with an undo on this machine.
func Tell(env app.Env, err error) {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
	env.Observe(app.HostSaid{Line: watchdog.UndoMark + text})
}

// TellJournal reports a problem with this machine's journal, if there is one.
func TellJournal(env app.Env, state string) {
	if err := JournalFault(state); err != nil {
		Tell(env, err)
	}
}

// JournalFault returns why the journal of this machine does not list all changes that
// linerate made; nil if it does, or if it may not be read.
func JournalFault(state string) error {
	// Without a directory there is no journal. An undo reports one that may not be read, and
	// does not use one that belongs to another user.
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

// UndoFault gives an error of an undo its exit code: a host may hold a changed setting while
// another process holds the journal, or if the journal is incomplete.
func UndoFault(err error) error {
	_, stuck := errors.AsType[*watchdog.StuckError](err)
	if stuck || errors.Is(err, journal.ErrLocked) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNewer) {
		return fault.WithKind(fault.NotUndone, err)
	}
	return err
}

// Acknowledge records that the user has seen that the journal of this machine was damaged,
// and returns the damaged files, which stay.
func Acknowledge(version, state string) ([]string, error) {
	dir, err := StateDir(state)
	if err != nil {
		return nil, err
	}
	_, damage, err := journal.Read(dir)
	if err != nil {
		return nil, err
	}
	if len(damage) > 0 { // no process has saved it yet
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

// acknowledge does the same for an agent with Options.Acknowledge, before anything else.
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
