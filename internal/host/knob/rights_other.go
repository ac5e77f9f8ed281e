//go:build !linux && !windows

package knob

import (
	"errors"
	"os"
)

// Rights returns why this process may not change settings, nil if it may.
func Rights() error {
	if os.Geteuid() != 0 {
		return errors.New("linerate has no root rights")
	}
	return nil
}
