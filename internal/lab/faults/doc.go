// Package faults creates labs with a known limit from seeds.
//
// A case is drawn in these steps:
//
//  1. The seed decides what is planted: nothing in about three of ten cases, two kinds in one
//     of seven, else one kind of the catalogue.
//  2. A rate and a round trip are drawn, each log-uniformly from its whole range, and a
//     direction; the kind draws its own parameters.
//  3. The kind computes what its plant allows: a window over the round trip, what a loss rate
//     leaves to CUBIC, the rate of a stage. If that is not clearly less than what the link
//     carries, or if this wire could not carry what the case needs, the draw is discarded and
//     repeated. So a planted limit is the limit, by calculation, and a clean path is one that a
//     good TCP fills in the time.
//  4. The labels list for each direction which findings are right as the first one, which are
//     required, and which are allowed.
//
// The capacity of the wire is measured (see docs/architecture.md): MostPackets.
package faults

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// MostPackets is how many full packets a second a case may need in one direction: on two cores
// of a virtual machine the wire, two hosts' kernels and both programs carried 65,000 to 95,000
// a second, with all cores busy. Half of that leaves spare time, so that no CPU is the limit
// unless planted: 0.5 Gbit/s with packets of 1500 bytes, 1.9 Gbit/s with 9000, of which copying
// allows mostJumbo.
const (
	MostPackets = 42_000
	mostJumbo   = units.BitRate(1e9)
)

// The ranges of the draws.
const (
	LeastRate = units.BitRate(1e6)
	MostRate  = units.BitRate(2e9)
	LeastTrip = 100 * time.Microsecond
	MostTrip  = 300 * time.Millisecond
)

// bites is the largest share of the ceiling that a planted limit may allow: closer to it, the
// full path would be the right answer within the accuracy of the formulas.
const bites = 0.6

// Answer is a finding: a rule, and the required host. Host "*" is any.
type Answer struct {
	Rule string     `json:"rule"`
	Host model.Host `json:"host"`
}

// Any is the host of an answer that is right for any host.
const Any model.Host = "*"

// Is reports whether a finding matches the answer.
func (a Answer) Is(rule string, host model.Host) bool {
	return a.Rule == rule && (a.Host == Any || a.Host == host)
}

// Label is the right result for one direction.
type Label struct {
	Direction model.Direction `json:"direction"`
	// Planted is false if only the link limits this direction.
	Planted bool `json:"planted"`
	// First are the answers one of which must be the first finding.
	First []Answer `json:"first"`
	// Named are sets of answers; one of each set must be among the findings.
	Named [][]Answer `json:"named,omitempty"`
	// May are answers that are also true.
	May []Answer `json:"may,omitempty"`
	// Bound is the rate that the plant allows, by formula; 0 if there is none.
	Bound units.BitRate `json:"bound,omitempty"`
	// Ceiling is the TCP payload rate of the link in this direction.
	Ceiling units.BitRate `json:"ceiling"`
}

// Plant is a change to a host besides the lab's settings.
type Plant struct {
	Host model.Host `json:"host"`
	// Quota is the share of a core that the host's agent may use; 0 is all.
	Quota float64 `json:"quota,omitempty"`
	// Busy makes the host's agent share one core with a program that takes nearly all of it.
	Busy bool `json:"busy,omitempty"`
	// Stopped is how long the host's agent is stopped in each Period.
	Stopped time.Duration `json:"stopped,omitempty"`
	Period  time.Duration `json:"period,omitempty"`
	// RouteMTU is the MTU of the host's route to the other host.
	RouteMTU int `json:"route_mtu,omitempty"`
}

// Case is a lab, the measurement in it, and the right result.
type Case struct {
	Seed uint64 `json:"seed"`
	// Kind is the name of the plant: "clean", one kind, or two joined with " + ".
	Kind  string        `json:"kind"`
	Clean bool          `json:"clean"`
	Rate  units.BitRate `json:"rate"`
	Trip  time.Duration `json:"trip_ns"`
	Spec  string        `json:"spec"` // of the lab, without "lab:"
	// Check selects linerate check instead of linerate test; Full reports whether the case
	// needs a full check.
	Check  bool     `json:"check"`
	Full   bool     `json:"full,omitempty"`
	Args   []string `json:"args,omitempty"` // of the command
	Plants []Plant  `json:"plants,omitempty"`
	Labels []Label  `json:"labels"`
	// Machine is set if the case needs two machines instead of a lab.
	Machine *Machine `json:"machine,omitempty"`
	// Located is set if the case has routers, and is judged by the place in the first finding.
	Located *Full `json:"located,omitempty"`
}

// Kind is one kind of planted limit, or of a harmless condition that looks like one.
type Kind struct {
	Name string
	// Says describes the plant.
	Says string
	// Harmless kinds limit nothing: the path is clean, with a trap.
	Harmless bool
	// Skip is why this kind cannot be planted here; "" if it can.
	Skip string
	// plant draws the parameters. It returns false if the fault would not bite at the drawn
	// rate and round trip.
	plant func(*draw) bool
	// lone kinds take no part in pairs: they need the path, or a command, of their own.
	lone bool
	// later kinds were added after seeds had been assigned, see Draw.
	later bool
}
