package facts

import (
	"context"
	"errors"
	"maps"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/radio"
)

// maxNICs bounds the interfaces to report: container hosts have hundreds.
const maxNICs = 32

// ReadNICs returns at most 32 interfaces of this host, the one named first before the others.
func ReadNICs(ctx context.Context, x *knob.Index, first string) ([]model.NIC, error) {
	return readNICs(ctx, x, first)
}

// tellRadio adds the connection of a wireless interface, as far as the system reports it.
func tellRadio(n *model.NIC) {
	r, err := radio.Facts(n.Name)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return
	case err != nil:
		fact.Explain(&r, err.Error())
	}
	n.Kind, n.Radio = fact.Known("wireless", "radio"), &r
}

// settings reads the driver's knobs that an interface has.
func settings(ctx context.Context, x *knob.Index, device string) map[model.KnobID]fact.Of[string] {
	var ids []model.KnobID
	for _, k := range x.All() {
		if k.Scope == knob.ScopeLink {
			ids = append(ids, k.ID)
		}
	}
	all := hostknob.Host{Interface: device, Index: x}.Read(ctx, ids...)
	maps.DeleteFunc(all, func(_ model.KnobID, v fact.Of[string]) bool { return !v.IsKnown() })
	return all
}
