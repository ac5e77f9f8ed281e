package knob

import (
	"errors"
	"fmt"

	"linerate/internal/host/knob/winreg"
	"linerate/internal/host/knob/wintcp"
)

// open is the one place that knows the mechanisms of Windows.
func open(_ Host, p Place) (Backend, error) {
	switch p.Mechanism {
	case WinReg:
		return winreg.Open(p.Native)
	case WinTCP:
		return wintcp.Open(p.Target, p.Native)
	default:
		return nil, fmt.Errorf("mechanism %q on windows: %w", p.Mechanism, errors.ErrUnsupported)
	}
}
