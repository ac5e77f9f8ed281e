//go:build freebsd || darwin

package knob

import (
	"errors"
	"fmt"
	"runtime"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/ifioctl"
	"linerate/internal/host/knob/sysctl"
)

// open is the only place that knows the mechanisms of FreeBSD and macOS.
func open(h Host, p Place) (Backend, error) {
	switch p.Mechanism {
	case knob.Sysctl:
		return sysctl.Open(h.ProcSys, p.Native)
	case knob.IfIoctl:
		return ifioctl.Open(p.Target, p.Native)
	default:
		return nil, fmt.Errorf("mechanism %q on %s: %w", p.Mechanism, runtime.GOOS, errors.ErrUnsupported)
	}
}
