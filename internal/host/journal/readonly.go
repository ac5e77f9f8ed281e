package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// openWritable opens a file of the journal for reading and writing, and makes it
// where it does not exist. One on a read-only file system is opened for reading:
// what a crash left there has to be undone too.
func openWritable(path string, flag int) (f *os.File, readOnly bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|flag, 0o600)
	if !errors.Is(err, syscall.EROFS) {
		return f, false, err
	}
	if f, openErr := os.Open(path); openErr == nil {
		return f, true, nil
	}
	return nil, false, err
}

// writable refuses records where there is no place for them.
func (j *Journal) writable() error {
	switch {
	case len(j.damage) > 0:
		return fmt.Errorf("append to %s: line %d: %s: %w", j.Path(), j.damage[0].Line, j.damage[0].Reason, ErrDamaged)
	case j.readOnly:
		return fmt.Errorf("append to %s: %w", j.Path(), syscall.EROFS)
	}
	return nil
}
