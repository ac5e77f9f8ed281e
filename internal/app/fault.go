package app

import (
	"errors"
	"fmt"
	"io/fs"

	"linerate/internal/control/session"
	"linerate/internal/fault"
)

// Missing is why a host has no value of a knob, in the host's own words, which mostly
// end in those of errors.ErrUnsupported. It is one such.
type Missing string

// Error is what the host says.
func (m Missing) Error() string { return string(m) }

// Is reports whether target is errors.ErrUnsupported.
func (m Missing) Is(target error) bool { return target == errors.ErrUnsupported }

// MayTune demands that settings of a host may be changed in its session, and names what
// cannot be done where they may not.
func MayTune(c *session.Client, what string) error {
	if c.NoSettings() == "" {
		return nil
	}
	return fault.New(fault.Unsupported, fmt.Errorf("%s on %s: %s", what, c.Name(), c.NoSettings()), settingsTake)
}

// settingsTake says what it takes to change settings of a host.
const settingsTake = "settings of a host take root there (over ssh: --sudo), or a key with the right tune and serve --allow-tune;\n" +
	"those of the flow (window, mss, streams, block, nodelay) need neither"

// Refused reports whether a host said no: to a session, a run or a file.
func Refused(err error) bool {
	return errors.Is(err, session.ErrRefused) || errors.Is(err, fs.ErrPermission)
}
