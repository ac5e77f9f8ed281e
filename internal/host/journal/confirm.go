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

// A confirmation is a file beside the journal that names the transaction that the user wants
// to keep. Not the process that holds the journal but another one writes it, for a user who
// came over a new connection. Once it is on disk, the transaction stays.
const confirmationName = "confirmed"

func (d Dir) confirmation() string { return filepath.Join(d.Path, confirmationName) }

// Confirm writes the confirmation of a transaction to disk, atomically. The journal need not
// be open. An earlier confirmation is replaced.
func (d Dir) Confirm(transaction string) error {
	files := d.files()
	if err := files.Trusted(d.Path); err != nil {
		return fmt.Errorf("confirm %s: %w", transaction, err)
	}
	path := d.confirmation()
	next := fmt.Sprintf("%s.%d", path, os.Getpid())
	err := durable.Write(files, next, []byte(transaction+"\n"), 0o600)
	if err == nil {
		err = files.Rename(next, path)
	}
	if err == nil {
		err = files.SyncDir(d.Path)
	}
	if err != nil {
		_ = files.Remove(next)
		return fmt.Errorf("confirm %s: %w", transaction, err)
	}
	return nil
}

// Confirmation returns the transaction that a confirmation names, "" without one.
func (j *Journal) Confirmation() (string, error) {
	b, err := j.dir.files().Read(j.dir.confirmation())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read confirmation: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Withdraw removes the confirmation of a transaction that was rolled back before the
// confirmation took effect, if it is there.
func (d Dir) Withdraw(transaction string) {
	if d.Confirming(transaction) {
		_ = d.files().Remove(d.confirmation()) // one that stays names a transaction that is no longer open
	}
}

// Confirming reports whether there is a confirmation of the transaction.
func (d Dir) Confirming(transaction string) bool {
	b, err := d.files().Read(d.confirmation())
	return err == nil && strings.TrimSpace(string(b)) == transaction
}

// DropConfirmation removes the confirmation, if there is one.
func (j *Journal) DropConfirmation() error {
	err := j.dir.files().Remove(j.dir.confirmation())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropUnfinished removes the temporary files of confirmations whose process was killed. A
// confirmation that is being written at this moment then fails, correctly: its transaction no
// longer belongs to another process.
func (j *Journal) dropUnfinished() {
	names, _ := j.dir.files().List(j.dir.Path) // leftover files do no harm
	for _, name := range names {
		if strings.HasPrefix(name, confirmationName+".") {
			_ = j.dir.files().Remove(filepath.Join(j.dir.Path, name))
		}
	}
}

// State is the state of a transaction.
type State int

// The states of a transaction.
const (
	Unheard   State = iota // the journal does not know it, or no longer does
	Pending                // applied, or being applied
	Confirmed              // kept
	Leaving                // being undone: part of it may be undone already, not all
	Over                   // it was undone
)

// StateOf returns the state of a transaction in records. If only some of its intents have
// ended, it is not over, but cannot be kept as a whole either.
func StateOf(records []Record, transaction string) State {
	intents, ended := make(map[int]bool), make(map[int]bool)
	confirmed, revoked, closed := false, false, false
	for _, r := range records {
		if r.Transaction != transaction {
			continue
		}
		switch r.Kind {
		case KindIntent:
			intents[r.Number] = true
		case KindConfirmed:
			confirmed = true
		case KindRevoked:
			revoked = true
		case KindUndone, KindForeign, KindFailed:
			ended[r.Number] = true
		case KindClosed:
			closed = true
		case KindApplied, KindHealed:
		}
	}
	switch {
	case closed, len(ended) > 0 && len(ended) >= len(intents):
		return Over
	case revoked, len(ended) > 0:
		return Leaving
	case confirmed:
		return Confirmed
	case len(intents) > 0:
		return Pending
	}
	return Unheard
}
