package knob

import (
	"errors"
	"fmt"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/ethtool"
	"linerate/internal/host/knob/irq"
	"linerate/internal/host/knob/link"
	"linerate/internal/host/knob/qdisc"
	"linerate/internal/host/knob/route"
	"linerate/internal/host/knob/sysctl"
)

// together returns a host for many reads at one moment: it queries the driver once for each group
// of settings.
func together(h Host) Host {
	if h.Backend != nil {
		return h
	}
	remember := ethtool.Remember()
	h.Backend = func(p Place) (Backend, error) {
		if p.Mechanism == knob.Ethtool {
			return remember(p.Target, p.Native)
		}
		return open(h, p)
	}
	return h
}

// open is the only place that knows the mechanisms of Linux.
func open(h Host, p Place) (Backend, error) {
	switch p.Mechanism {
	case knob.Sysctl:
		return sysctl.Open(h.ProcSys, p.Native)
	case knob.Link:
		return link.Open(p.Target, p.Native)
	case knob.Ethtool:
		return ethtool.Open(p.Target, p.Native)
	case knob.Qdisc:
		return qdisc.Open(p.Target, p.Native)
	case knob.Route:
		return route.Open(p.Target, p.Native)
	case knob.IRQ:
		return irq.Open("", p.Target, p.Native)
	default:
		return nil, fmt.Errorf("mechanism %q on linux: %w", p.Mechanism, errors.ErrUnsupported)
	}
}
