package fleet

import (
	"fmt"
	"time"

	"linerate/internal/core/fleet/series"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// Status is the state of a fleet as its hub tells it.
type Status struct {
	Now     time.Time      `json:"now"`
	Hosts   []HostStatus   `json:"hosts"`
	Ways    []WayStatus    `json:"ways"` // all pairs of present hosts
	Hour    Tally          `json:"hour"` // results of the last hour
	Queue   []Entry        `json:"queue"`
	Recent  []Entry        `json:"recent"`  // the newest first
	Changes []Change       `json:"changes"` // the newest first
	Alerts  []Alert        `json:"alerts"`  // the newest first, of all hubs
	Faults  []string       `json:"faults"`  // of the hub itself
	Setup   Setup          `json:"setup"`
	Shared  []SharedStatus `json:"shared"`
	Rounds  int            `json:"rounds"` // looks of each host an hour, as far as its owner allows
}

// HostStatus is a host for display.
type HostStatus struct {
	ID      int64     `json:"id"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Joined  time.Time `json:"joined"`
	Seen    time.Time `json:"seen"`
	Silent  bool      `json:"silent"`
	Notes   []string  `json:"notes"`
	Limits  Limits    `json:"limits"`  // of its owner, lowered by its groups
	Waiting int       `json:"waiting"` // results that the hub does not have yet
	Lost    int       `json:"lost"`    // results that found no room on its disk
	Looks   int       `json:"looks"`   // that it takes part in, an hour, as far as its owner allows
	// Sends is what that sends an hour at the goodput of its paths; nil if none was measured.
	Sends *units.Bytes `json:"sends_bytes"`
}

// WayStatus is the present state of a path; a number is nil if it was never measured.
type WayStatus struct {
	Low       int64     `json:"low"`
	High      int64     `json:"high"`
	To        *float64  `json:"to_bps"`   // goodput from Low to High
	From      *float64  `json:"from_bps"` // goodput from High to Low
	RoundTrip *float64  `json:"round_trip_s"`
	LossTo    *float64  `json:"loss_to"`
	LossFrom  *float64  `json:"loss_from"`
	Last      time.Time `json:"last,omitzero"`     // look that counts
	Problem   string    `json:"problem,omitempty"` // why the look after it does not count
}

// SharedStatus is what Pairs share, of which AtOnce measure at a time.
type SharedStatus struct {
	Name   string `json:"name"`
	AtOnce int    `json:"at_once"`
	Pairs  int    `json:"pairs"`
}

// String says what s allows.
func (s SharedStatus) String() string {
	return fmt.Sprintf("%s: at most %d of %s at a time", plain.Line(s.Name), s.AtOnce, plain.Count(s.Pairs, "pair"))
}

// Tally counts leases by what became of them.
type Tally map[LeaseState]int

// Entry is a lease for display.
type Entry struct {
	Lease  int64      `json:"lease"`
	Kind   LeaseKind  `json:"kind"`
	Near   string     `json:"near"`
	Far    string     `json:"far"`
	From   time.Time  `json:"from"`
	Until  time.Time  `json:"until"`
	State  LeaseState `json:"state"`
	Reason string     `json:"reason,omitempty"`
}

// Change is a confirmed change of a path, as Near sees it, or of the host Near on all its paths, as
// the others see it: Far is then "".
type Change struct {
	Near string `json:"near"`
	Far  string `json:"far"`
	series.Report
	// Cohorts compares the hosts on which each of Changed has changed alike with the others; none
	// for the change of a path.
	Cohorts []Cohort `json:"cohorts,omitempty"`
}

// Alert is an event that people are told of at once.
type Alert struct {
	ID      int64     `json:"-"`    // 0 until it is stored
	Kind    string    `json:"kind"` // worse, better, silent, back, joined, twin, clock, hub, operator
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
	Change  *Change   `json:"change,omitempty"`
}
