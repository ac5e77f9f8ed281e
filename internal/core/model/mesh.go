package model

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Mesh describes a session that measures between all pairs of several hosts. The setting of
// each run is the name of a direction.
type Mesh struct {
	Hosts  []MeshHost `json:"hosts"`
	Ways   []MeshWay  `json:"ways"`    // both directions of every pair
	Rounds int        `json:"rounds"`  // times that each direction is to be measured
	AtOnce int        `json:"at_once"` // most pairs measured at the same time; 0 is no limit
}

// MeshHost is a host of a mesh.
type MeshHost struct {
	Name    string                 `json:"name"`   // unique in the mesh
	Target  string                 `json:"target"` // as the user named it, secrets removed
	System  string                 `json:"system,omitempty"`
	Kernel  fact.Of[string]        `json:"kernel"`
	Address string                 `json:"address,omitempty"` // of the data path, as the host sees it
	MTU     fact.Of[int]           `json:"mtu"`
	Link    fact.Of[units.BitRate] `json:"link_rate"`         // of the interface of the data path
	Problem string                 `json:"problem,omitempty"` // why it took no part, or dropped out
}

// MeshWay is the direction from one host to another.
type MeshWay struct {
	Name    string `json:"name"`               // "nas -> pi"
	From    int    `json:"from"`               // place in Mesh.Hosts
	To      int    `json:"to"`                 //
	LeftOut string `json:"left_out,omitempty"` // why it was not to be measured
	Problem string `json:"problem,omitempty"`  // why none of its runs counts
}
