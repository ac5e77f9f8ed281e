package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"linerate/internal/host/durable"
)

// A confirmation is a file beside the journal that names the transaction which a
// person wants to keep. Another process than the one that holds the journal
// writes it: a person who came by a new connection. That it is on disk is the
// moment from which the transaction stays.
const confirmationName = "confirmed"

// Confirm puts the confirmation of a transaction on disk, in one step. The
// journal does not have to be open. An earlier confirmation is replaced.
func Confirm(dir, transaction string) error {
	if err := durable.Trusted(dir); err != nil {
		return fmt.Errorf("confirm %s: %w", transaction, err)
	}
	path := filepath.Join(dir, confirmationName)
	next := fmt.Sprintf("%s.%d", path, os.Getpid())
	err := durable.Write(next, []byte(transaction+"\n"), 0o600)
	if err == nil {
		err = os.Rename(next, path)
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err != nil {
		_ = os.Remove(next)
		return fmt.Errorf("confirm %s: %w", transaction, err)
	}
	return nil
}

// Confirmation returns the transaction that a confirmation names, "" without one.
func (j *Journal) Confirmation() (string, error) {
	b, err := os.ReadFile(filepath.Join(j.dir, confirmationName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read confirmation: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// DropConfirmation removes the confirmation, if there is one.
func (j *Journal) DropConfirmation() error {
	err := os.Remove(filepath.Join(j.dir, confirmationName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropUnfinished removes what is left of confirmations whose process was killed
// before they counted. One that is being written right now fails then, as it
// should: the transaction that it names is another process's no more.
func (j *Journal) dropUnfinished() {
	left, _ := filepath.Glob(filepath.Join(j.dir, confirmationName+".*")) // the pattern is good
	for _, path := range left {
		_ = os.Remove(path) // it matters to nobody but who looks there
	}
}

// State says how a transaction stands.
type State int

// The states of a transaction.
const (
	Unheard   State = iota // the journal does not know it (any more)
	Pending                // applied, or being applied
	Confirmed              // it stays
	Over                   // it was undone
)

// StateOf returns how a transaction stands among records.
func StateOf(records []Record, transaction string) State {
	s := Unheard
	for _, r := range records {
		if r.Transaction != transaction {
			continue
		}
		switch r.Kind {
		case KindIntent:
			s = max(s, Pending)
		case KindConfirmed:
			s = max(s, Confirmed)
		case KindUndone, KindForeign, KindFailed, KindClosed:
			s = Over
		case KindApplied, KindHealed:
		}
	}
	return s
}
