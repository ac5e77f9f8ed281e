package app

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// The events of a mesh.
func (MeshBegan) event()    {}
func (PairMeasured) event() {}

// MeshBegan begins the rounds of a mesh.
type MeshBegan struct {
	Session model.Session
	Pairs   int // to measure, all repeats together
	Rounds  int
	Takes   time.Duration // estimate
}

// PairMeasured is a pair of a mesh that was measured both ways, or could not be.
type PairMeasured struct {
	Near, Far   string
	There, Back units.BitRate // of this measurement alone; 0 is unknown
	Problem     string        // why a direction has no rate, "" if both have one
	Done, Pairs int
	Left        time.Duration // estimate for all pairs that are still to be measured
}
