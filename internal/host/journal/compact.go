package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// Tidy compacts the journal when all in it is over and it has grown long.
func (j *Journal) Tidy() error {
	if j.size <= compactAbove || len(j.OpenIntents()) > 0 {
		return nil
	}
	return j.Compact()
}

// Compact drops the transactions that are over, in one step: a crash leaves
// the old journal or the new one. A damaged journal is saved first, as
// journal.jsonl.damaged-1 and so on beside it; it takes records again then.
func (j *Journal) Compact() error {
	if err := j.compact(); err != nil {
		return fmt.Errorf("compact %s: %w", j.Path(), err)
	}
	return nil
}

func (j *Journal) compact() error {
	if len(j.damage) > 0 {
		if err := j.save(); err != nil {
			return err
		}
	}
	unfinished := make(map[string]bool)
	for _, o := range append(j.OpenIntents(), j.ConfirmedIntents()...) {
		unfinished[o.Transaction] = true
	}
	var text []byte
	for _, r := range j.records {
		if !unfinished[r.Transaction] {
			continue
		}
		b, err := encode(r)
		if err != nil {
			return err
		}
		text = append(text, b...)
	}
	next := j.Path() + ".new"
	if err := writeSynced(next, text, os.O_TRUNC); err != nil {
		return err
	}
	// Windows replaces no file that is open, so ours is closed around it.
	err := j.file.Close()
	j.file = nil
	if err == nil {
		err = os.Rename(next, j.Path())
	}
	return errors.Join(err, j.load())
}

// save copies the file as it is to a name that is free.
func (j *Journal) save() error {
	text, err := os.ReadFile(j.Path())
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		err := writeSynced(j.Path()+".damaged-"+strconv.Itoa(n), text, os.O_EXCL)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

func writeSynced(path string, text []byte, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
