package knob

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Rights returns why this process may not change settings, nil if it may.
func Rights() error {
	if !windows.GetCurrentProcessToken().IsElevated() {
		return errors.New("linerate has no administrator rights")
	}
	return nil
}
