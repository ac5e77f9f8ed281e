package app

import (
	"errors"
	"fmt"
	"io/fs"

	"linerate/internal/control/session"
	"linerate/internal/fault"
)

// Missing is the reason why a host has no value of a knob, in the host's own words, which
// mostly end in those of errors.ErrUnsupported. It matches errors.ErrUnsupported.
type Missing string

// Error returns the host's words.
func (m Missing) Error() string { return string(m) }

// Is reports whether target is errors.ErrUnsupported.
func (m Missing) Is(target error) bool { return target == errors.ErrUnsupported }

// MayTune returns an error unless the session may change settings of its host. what names the
// operation that is refused.
func MayTune(c *session.Client, what string) error {
	if c.NoSettings() == "" {
		return nil
	}
	return fault.New(fault.Unsupported, fmt.Errorf("%s on %s: %s", what, c.Name(), c.NoSettings()), settingsTake)
}

// settingsTake says what is needed to change settings of a host.
const settingsTake = "settings of a host take root there (over ssh: --sudo), or a key with the right tune and serve --allow-tune;\n" +
	"those of the flow (window, mss, streams, block, nodelay) need neither"

// Refused reports whether a host refused a session, a run or a file.
func Refused(err error) bool {
	return errors.Is(err, session.ErrRefused) || errors.Is(err, fs.ErrPermission)
}
