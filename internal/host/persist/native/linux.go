package native

import (
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files/ifupdown"
	"linerate/internal/host/files/netplan"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/files/sysctl"
)

// linux renders the settings of the kernel, and those of a link by its owner.
func (r *rendering) linux(f model.FileFormat) {
	req := r.request()
	r.draft(sysctl.Export(req))
	switch f {
	case model.FormatSystemdNetworkd:
		r.draft(networkd.Export(req, r.in.MAC))
	case model.FormatNetplan:
		r.draft(netplan.Export(req))
	case model.FormatNetworkManager:
		r.draft(networkmanager.Export(req))
	case model.FormatIfupdown:
		r.draft(ifupdown.Export(req))
	default:
		for _, s := range req.Settings {
			if s.Text == "" {
				r.out.Omitted = append(r.out.Omitted, model.Omission{Knob: s.Knob, Value: s.Value,
					Reason: "not a sysctl: the owner of the interface keeps it (systemd-networkd, netplan, networkmanager, ifupdown)"})
			}
		}
	}
}

// noOwner is why no owner of an interface has a key for e.
func noOwner(e *entry) string {
	if e.native.Mechanism == knob.Route {
		return "belongs to a route: put it where that route is configured"
	}
	return e.native.Permanent("linux")
}
