// Package faults makes labs in which it is known what limits, from seeds.
//
// A case is drawn in these steps:
//
//  1. The seed decides what is planted: nothing in about three of ten cases, two kinds in
//     one of seven, else one kind of the catalogue.
//  2. A rate and a round trip are drawn, each from its whole range by logarithm, and a
//     direction; the kind draws its own parameters.
//  3. The kind computes what its plant allows: a window over the round trip, what a
//     rate of losses leaves to CUBIC, the rate of a stage. Where that is not clearly
//     less than what the link carries, or where this wire could not carry what a case
//     needs, the draw is thrown away and the next one taken. So a planted limit is the
//     limit, on paper, and a clean path is one that a good TCP fills in the time.
//  4. The labels say for each direction which findings are right as the first one,
//     which have to be named, and which may be.
//
// What the wire can carry is measured (docs/architecture.md says where): MostPackets.
package faults

import (
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// MostPackets is how many full packets a second a case may need in one direction: on
// two cores of a virtual machine the wire, two hosts' kernels and both programs carried
// 65,000 to 95,000 a second, all cores busy. Half of that leaves them time, so that no
// processor is the limit where none was planted: 0.5 Gbit/s with packets of 1500
// bytes, 1.9 Gbit/s with 9000, of which copying allows mostJumbo.
const (
	MostPackets = 42_000
	mostJumbo   = units.BitRate(1e9)
)

// The ranges that are drawn from.
const (
	LeastRate = units.BitRate(1e6)
	MostRate  = units.BitRate(2e9)
	LeastTrip = 100 * time.Microsecond
	MostTrip  = 300 * time.Millisecond
)

// bites is the share of the ceiling that a planted limit may allow at most: with less
// distance the full path would be the right answer within what formulas are good for.
const bites = 0.6

// Answer is a finding: a rule, and the host that it has to be of. Host "*" is any.
type Answer struct {
	Rule string     `json:"rule"`
	Host model.Host `json:"host"`
}

// Any is the host of an answer for which any is right.
const Any model.Host = "*"

// Is reports whether a finding is that answer.
func (a Answer) Is(rule string, host model.Host) bool {
	return a.Rule == rule && (a.Host == Any || a.Host == host)
}

// Label is what is right to say of one direction.
type Label struct {
	Direction model.Direction `json:"direction"`
	// Planted is false where nothing limits this direction but the link.
	Planted bool `json:"planted"`
	// First are the answers of which one has to be the first finding.
	First []Answer `json:"first"`
	// Named are sets of answers; of each set one has to be among the findings.
	Named [][]Answer `json:"named,omitempty"`
	// May are answers that are true as well.
	May []Answer `json:"may,omitempty"`
	// Bound is what the plant allows, on paper; 0 where there is no formula.
	Bound units.BitRate `json:"bound,omitempty"`
	// Ceiling is what the link carries in this direction as payload of TCP.
	Ceiling units.BitRate `json:"ceiling"`
}

// Plant is what is done to a host beside the settings of the lab.
type Plant struct {
	Host model.Host `json:"host"`
	// Quota is the share of a core that the host's agent may use; 0 is all.
	Quota float64 `json:"quota,omitempty"`
	// Busy has the host's agent share one core with a program that gets nearly all
	// of it.
	Busy bool `json:"busy,omitempty"`
	// Stopped is for how long the host's agent is stopped in each Period.
	Stopped time.Duration `json:"stopped,omitempty"`
	Period  time.Duration `json:"period,omitempty"`
	// RouteMTU is what the host's route to the other one says of its packets.
	RouteMTU int `json:"route_mtu,omitempty"`
}

// Case is a lab, what is measured in it, and what is right to say of it.
type Case struct {
	Seed uint64 `json:"seed"`
	// Kind is the name of what is planted: "clean", one kind, or two with " + ".
	Kind  string        `json:"kind"`
	Clean bool          `json:"clean"`
	Rate  units.BitRate `json:"rate"`
	Trip  time.Duration `json:"trip_ns"`
	Spec  string        `json:"spec"` // of the lab, without "lab:"
	// Check is whether linerate check is asked, else linerate test; Full is whether
	// it needs the whole of it.
	Check  bool     `json:"check"`
	Full   bool     `json:"full,omitempty"`
	Args   []string `json:"args,omitempty"` // of the command
	Plants []Plant  `json:"plants,omitempty"`
	Labels []Label  `json:"labels"`
	// Machine is there where the case needs two machines in place of a lab.
	Machine *Machine `json:"machine,omitempty"`
	// Located is there where the case has routers, and is judged by the place that the
	// first finding names.
	Located *Full `json:"located,omitempty"`
}

// Kind is one kind of planted limit, or a harmless thing that looks like one.
type Kind struct {
	Name string
	// Says is what is planted.
	Says string
	// Harmless kinds limit nothing: the path is clean, with a trap.
	Harmless bool
	// Skip says why this kind cannot be planted here; "" for kinds that can.
	Skip string
	// plant draws the parameters. It reports false where the fault would not bite at
	// the drawn rate and round trip.
	plant func(*draw) bool
	// lone kinds take no part in pairs: they need the path, or a command, of their own.
	lone bool
	// later kinds came when seeds had been given out, see Draw.
	later bool
}
