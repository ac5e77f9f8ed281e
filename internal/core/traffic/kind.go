package traffic

import (
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Kind is the paper half of an engine: all that is not its making of traffic. Only
// Name is needed; without a function the engine does what most do.
type Kind struct {
	// Name is the engine's name in plans, on the wire and in results.
	Name string
	// Demand is what a run takes of its host beyond streams and blocks; nil is
	// nothing. It is asked before the flow is checked.
	Demand func(f model.Flow) Demand
}

// Demand is what one end of a run takes of its host, by the flow's own word.
type Demand struct {
	Message   units.Bytes   // the largest message, which each stream holds whole; 0 is Flow.Block
	Answer    units.Bytes   // beside it, an answer
	Datagrams bool          // the payload travels over UDP
	Rate      units.BitRate // of it, per direction; 0 is as fast as possible
	Stored    bool          // Flow.Bytes may be stored
	Paths     bool          // in files that the controller names
}

// Of returns what k takes for f.
func (k Kind) Of(f model.Flow) Demand {
	if k.Demand == nil {
		return Demand{}
	}
	return k.Demand(f)
}

// Kinds are the kinds of traffic that a program knows.
type Kinds []Kind

// ByName returns the kind of that name; what is not known has the name alone.
func (all Kinds) ByName(name string) (Kind, bool) {
	if i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return all[i], true
	}
	return Kind{Name: name}, false
}
