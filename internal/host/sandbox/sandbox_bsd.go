//go:build freebsd || darwin

package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// Confines reports that this system has nothing like no_new_privs and Landlock.
const Confines = false

// drop uses calls that, for root, set the real, effective and saved IDs of the whole process
// (setuid(2)).
func drop(u User) error {
	if err := syscall.Setgroups([]int{u.GID}); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setgid(u.GID); err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	if err := syscall.Setuid(u.UID); err != nil {
		return fmt.Errorf("set user: %w", err)
	}
	if syscall.Setuid(0) == nil {
		return errors.New("the way back to root is open")
	}
	return nil
}

func mapped(int) bool { return true }

func noNewPrivileges() error {
	return fmt.Errorf("no_new_privs on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func confine(Files) (int, error) {
	return 0, fmt.Errorf("%s has no Landlock: %w", runtime.GOOS, errors.ErrUnsupported)
}
