package knob

import (
	"errors"
	"fmt"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/winreg"
	"linerate/internal/host/knob/wintcp"
)

// open is the only place that knows the mechanisms of Windows.
func open(_ Host, p Place) (Backend, error) {
	switch p.Mechanism {
	case knob.WinReg:
		return winreg.Open(p.Native)
	case knob.WinTCP:
		return wintcp.Open(p.Target, p.Native)
	default:
		return nil, fmt.Errorf("mechanism %q on windows: %w", p.Mechanism, errors.ErrUnsupported)
	}
}

// together returns a host for many reads at one moment: it starts each command once.
func together(h Host) Host {
	run, err := wintcp.System()
	if h.Backend != nil || err != nil {
		return h
	}
	run = wintcp.Remember(run)
	h.Backend = func(p Place) (Backend, error) {
		if p.Mechanism == knob.WinTCP {
			return wintcp.OpenWith(run, p.Target, p.Native)
		}
		return open(h, p)
	}
	return h
}
