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
	if j.readOnly {
		return fmt.Errorf("%s: %w", j.Path(), syscall.EROFS)
	}
	return nil
}
