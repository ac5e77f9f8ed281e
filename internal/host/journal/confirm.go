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

// Withdraw removes the confirmation of a transaction that went back before it
// counted, if it is there.
func Withdraw(dir, transaction string) {
	path := filepath.Join(dir, confirmationName)
	if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == transaction {
		_ = os.Remove(path) // one that stays names a transaction that is no longer open
	}
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
	Leaving                // it is being undone: a part of it may be back already, not all
	Over                   // it was undone
)

// StateOf returns how a transaction stands among records. That one of its intents
// ended makes it neither over, while others have not, nor one that can be kept whole.
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
