package model

import (
	"time"
)

// Trace is the result of probes with limited TTL on the path from the sender of a direction to
// its receiver (docs/wire/hops.md).
type Trace struct {
	Direction Direction  `json:"direction" bound:"to|from"`
	Hops      []TraceHop `json:"hops,omitempty" bound:"64"`     // by TTL, from the sender on, up to the far end if it answered
	Ports     int        `json:"ports,omitempty" bound:"0..16"` // source ports that the rounds of a phase used in turn, see Port; 0 is one
	Why       string     `json:"why,omitempty" bound:"text"`    // why there are none
}

// Port returns which of the trace's source ports, from 0, sent round i of a phase, from 0. The
// order shifts, so that a router that answers once a second answers the probes of all ports.
func (t Trace) Port(i int) int {
	n := max(1, t.Ports)
	return (i + i/n) % n
}

// TraceBeyond is how far behind the last router that answers to probe under load, if the
// receiver does not answer: a server with that port open is silent.
const TraceBeyond = 2

// TraceHop is one distance from the sender. Times are round trips from the moment of sending to
// the answer's arrival in the kernel, one per round; 0 is a round without an answer.
type TraceHop struct {
	TTL     int             `json:"ttl" bound:"1..255"`
	Address string          `json:"address,omitempty" bound:"address"` // of the answering node; "" if none answered
	Others  []string        `json:"others,omitempty" bound:"16"`       // the node that answered each source port, if they differ; "" if none
	Arrived bool            `json:"arrived,omitempty"`                 // the answering node is the receiver
	Idle    []time.Duration `json:"idle_ns,omitempty" bound:"64"`      // before the load
	Loaded  []time.Duration `json:"loaded_ns,omitempty" bound:"256"`   // in the measured window
}

// PlaceKind classifies the place of a limit.
type PlaceKind string

// The kinds of places.
const (
	PlaceLink    PlaceKind = "link"     // packets wait in front of the link between two nodes
	PlaceNarrow  PlaceKind = "narrow"   // large packets do not pass the link between two nodes
	PlaceNoQueue PlaceKind = "no queue" // no node on the path answers later under load
	PlaceUnknown PlaceKind = "unknown"  // too few answers, or answers that contradict each other
)

// Place is where packets wait on the path of a direction under load.
type Place struct {
	Kind      PlaceKind     `json:"kind"`
	Direction Direction     `json:"direction"`
	Ports     int           `json:"ports,omitempty"`    // source ports whose probes wait, if the others' do not: the link is one of a bundle
	Before    PlaceNode     `json:"before,omitzero"`    // the last node that answers as fast as without load
	Behind    PlaceNode     `json:"behind,omitzero"`    // the first one that answers later
	Silent    []int         `json:"silent,omitempty"`   // TTLs between the two whose answers show nothing
	Later     time.Duration `json:"later_ns"`           // how much later the receiver answers under load, median
	Still     time.Duration `json:"still_ns,omitempty"` // and the node before
	Late      []int         `json:"late,omitempty"`     // TTLs of routers that answer late by themselves
}

// PlaceNode is a node on the path of a direction.
type PlaceNode struct {
	Hop     int    `json:"hop"`               // distance from the sender, which is 0; a router is 1 or more
	Address string `json:"address,omitempty"` // "" for a host
	Host    Host   `json:"host,omitempty"`    // "" for a router
}
