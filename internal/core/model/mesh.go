package model

import (
	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Mesh is what a session measured between all pairs of several hosts. Its runs have the name
// of a way as their setting.
type Mesh struct {
	Hosts  []MeshHost `json:"hosts"`
	Ways   []MeshWay  `json:"ways"`    // both ways of every pair
	Rounds int        `json:"rounds"`  // times that each way was to be measured
	AtOnce int        `json:"at_once"` // pairs measured at the same time at most; 0 is no limit
}

// MeshHost is a host of a mesh.
type MeshHost struct {
	Name    string                 `json:"name"`   // of no other host of the mesh
	Target  string                 `json:"target"` // as it was named, secrets removed
	System  string                 `json:"system,omitempty"`
	Kernel  fact.Of[string]        `json:"kernel"`
	Address string                 `json:"address,omitempty"` // of the data path, as the host sees it
	MTU     fact.Of[int]           `json:"mtu"`
	Link    fact.Of[units.BitRate] `json:"link_rate"`         // of the interface of the data path
	Problem string                 `json:"problem,omitempty"` // why it took no part, or no longer
}

// MeshWay is the way from one host to another.
type MeshWay struct {
	Name    string `json:"name"`               // "nas -> pi"
	From    int    `json:"from"`               // place in Mesh.Hosts
	To      int    `json:"to"`                 //
	LeftOut string `json:"left_out,omitempty"` // why it was not to be measured
	Problem string `json:"problem,omitempty"`  // why no run of it counts
}
