package model

import "linerate/internal/core/fact"

// Public returns what somebody without a key is told of a host: what a
// measurement needs to be judged, and nothing by which the host, its hardware or
// its network could be recognized. It is a list of what is told: a new field is
// not, until it is added here. Why something is unknown is not told either, since
// reasons name files and interfaces.
//
// Told are: the system and its architecture, the number of processors, linerate's
// version, the address that the session's own path ends at, MTU, rate and queueing
// discipline of its link, the congestion control, and PublicKnobs.
func (f HostFacts) Public() HostFacts {
	p := HostFacts{
		Host: f.Host, OS: f.OS, Arch: f.Arch, CPUs: f.CPUs, Version: f.Version, Address: f.Address,
		Kernel: fact.Unknown[string](untold), Interface: fact.Unknown[string](untold),
		MTU: told(f.MTU), LinkRate: told(f.LinkRate), Congestion: told(f.Congestion), Qdisc: told(f.Qdisc),
		Knobs: map[KnobID]fact.Of[string]{},
	}
	for _, id := range PublicKnobs() {
		if v, ok := f.Knobs[id]; ok {
			p.Knobs[id] = told(v)
		}
	}
	return p
}

// PublicKnobs are the settings that bound a single flow, whose values Public
// tells: without them nobody could say what held a measurement back.
func PublicKnobs() []KnobID {
	return []KnobID{
		"tcp.congestion_control", "tcp.recv_buffer_max", "tcp.send_buffer_max", "tcp.window_scaling", "tcp.sack", "tcp.timestamps", "link.mtu",
	}
}

// untold is the reason of what Public leaves out.
const untold = "not told without a key"

// told is a value without where it came from, or why it is missing.
func told[T any](f fact.Of[T]) fact.Of[T] {
	if v, known := f.Get(); known {
		return fact.Known(v, "the host")
	}
	return fact.Unknown[T]("not known")
}
