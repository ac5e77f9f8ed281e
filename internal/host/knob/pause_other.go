//go:build !freebsd

package knob

import "linerate/internal/core/knob"

// elsewhere concerns only drivers of FreeBSD.
func (h Host) elsewhere(knob.Native) error { return nil }
