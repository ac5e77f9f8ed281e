//go:build !linux && !windows

package knob

import (
	"errors"
	"os"
)

// Rights is why this process may not change settings, nil where it may.
func Rights() error {
	if os.Geteuid() != 0 {
		return errors.New("linerate has no root rights")
	}
	return nil
}
