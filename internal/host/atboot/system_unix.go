//go:build unix

package atboot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const programName = "linerate"

// executable returns an error if the file system of a program does not allow running it
// (mounted noexec): access(2).
func executable(program string) error {
	if err := unix.Access(program, unix.X_OK); err != nil {
		return fmt.Errorf("nothing can be run from %s: %w", filepath.Dir(program), err)
	}
	return nil
}

// discard removes a program, even a running one.
func discard(program string) (later string, err error) {
	if err := os.Remove(program); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return "", nil
}
