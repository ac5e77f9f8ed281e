//go:build !linux && !freebsd && !darwin

package sandbox

import (
	"errors"
	"fmt"
	"runtime"
)

// Confines reports that this system has nothing like no_new_privs and Landlock.
const Confines = false

func drop(User) error {
	return fmt.Errorf("another user on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func mapped(int) bool { return true }

func noNewPrivileges() error {
	return fmt.Errorf("no_new_privs on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func confine(Files) (int, error) {
	return 0, fmt.Errorf("%s has no Landlock: %w", runtime.GOOS, errors.ErrUnsupported)
}
