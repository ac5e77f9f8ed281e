package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/host/journal"
	"linerate/internal/host/watchdog"
)

// tellJournal says in one line what a person has to know of this machine's journal,
// once for each process.
func (a *console) tellJournal(state string) {
	a.told.Do(func() {
		if err := journalFault(state); err != nil {
			a.tellUndo(err)
		}
	})
}

// tellUndo says in one line what is wrong with an undo.
func (a *console) tellUndo(err error) {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
	_, _ = fmt.Fprintf(a.bootTalk(""), "%s%s\n", watchdog.UndoMark, text) // its Write never fails
}

// journalFault is why the journal of this machine does not tell all that linerate
// has changed; nil where it does, or where it may not be read.
func journalFault(state string) error {
	dir, err := stateDir(state)
	if err != nil {
		return nil //nolint:nilerr // without a directory there is no journal
	}
	_, damage, err := journal.Read(dir)
	if errors.Is(err, journal.ErrNewer) {
		return err
	}
	if err != nil {
		return nil //nolint:nilerr // who wants to undo is told
	}
	kept, err := journal.Unacknowledged(dir)
	if err != nil {
		return nil //nolint:nilerr // somebody else's: nothing is done with it
	}
	if len(damage) > 0 {
		kept = append(kept, journal.Files(dir)...)
	}
	if len(kept) == 0 {
		return nil
	}
	var names []string
	for _, path := range kept {
		names = append(names, filepath.Base(path))
	}
	return fmt.Errorf("%w, a setting may be changed that linerate no longer knows of: see %s in %s, then run linerate undo --acknowledge",
		journal.ErrDamaged, strings.Join(names, ", "), dir)
}

// undoFault gives an error of an undo its exit code: a host may hold a changed
// setting as long as somebody else holds the journal, or as it does not tell.
func undoFault(err error) error {
	_, stuck := errors.AsType[*watchdog.StuckError](err)
	if stuck || errors.Is(err, journal.ErrLocked) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrNewer) {
		return app.WithKind(app.NotUndone, err)
	}
	return err
}

// acknowledgeDamage notes that a person has seen what was damaged of the journal of
// this machine, and returns the files, which stay.
func acknowledgeDamage(version, state string) ([]string, error) {
	dir, err := stateDir(state)
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

// undoAcknowledge is undo --acknowledge on this machine.
func (a *console) undoAcknowledge(state string) error {
	files, err := acknowledgeDamage(a.Version, state)
	if err != nil {
		return undoFault(err)
	}
	if a.json {
		return a.document("linerate/undo/v1", map[string]any{"changes": []model.Change{}, "acknowledged": append([]string{}, files...)})
	}
	if len(files) == 0 {
		fmt.Fprintln(a.Out, "nothing to acknowledge")
	}
	for _, path := range files {
		fmt.Fprintf(a.Out, "acknowledged, and kept as %s\n", path)
	}
	return nil
}

// acknowledgeFor is what an agent that was started with --acknowledge does first.
func (a *console) acknowledgeFor(o agentOptions) {
	if !o.acknowledge {
		return
	}
	files, err := acknowledgeDamage(a.Version, o.state)
	for _, path := range files {
		a.tellUndo(fmt.Errorf("acknowledged, and kept as %s", path))
	}
	if err != nil {
		a.tellUndo(err)
	}
}
