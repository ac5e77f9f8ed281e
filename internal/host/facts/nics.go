package facts

import (
	"context"
	"maps"

	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	hostknob "linerate/internal/host/knob"
)

// maxNICs bounds the interfaces that are told: hosts of containers have
// hundreds.
const maxNICs = 32

// ReadNICs returns the interfaces of this host, at most 32, the one called
// first before the others.
func ReadNICs(ctx context.Context, first string) ([]model.NIC, error) {
	return readNICs(ctx, first)
}

// settings reads the driver's knobs of an interface, those that it has.
func settings(ctx context.Context, device string) map[model.KnobID]fact.Of[string] {
	var ids []model.KnobID
	for _, k := range knob.Catalogue() {
		if k.Scope == knob.ScopeLink {
			ids = append(ids, k.ID)
		}
	}
	all := hostknob.Host{Interface: device}.Read(ctx, ids...)
	maps.DeleteFunc(all, func(_ model.KnobID, v fact.Of[string]) bool { return !v.IsKnown() })
	return all
}
