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
	Now      time.Time      `json:"now"`
	Hosts    []HostStatus   `json:"hosts"`
	Pairs    int            `json:"pairs"` // of the hosts
	Seen     int            `json:"seen"`  // of them, those that were looked at in the last 24 hours
	Present  Present        `json:"present"`
	Odd      []string       `json:"odd"`      // which hosts and paths carry less than the others
	Failed   int            `json:"failed"`   // pairs whose last look does not count
	Problems []Problem      `json:"problems"` // of some of them
	Hour     Tally          `json:"hour"`     // results of the last hour
	Queue    []Entry        `json:"queue"`
	Recent   []Entry        `json:"recent"`  // the newest first
	Changes  []Change       `json:"changes"` // the newest first
	Alerts   []Alert        `json:"alerts"`  // the newest first, of all hubs
	Faults   []string       `json:"faults"`  // of the hub itself
	Setup    Setup          `json:"setup"`
	Shared   []SharedStatus `json:"shared"`
	Rounds   int            `json:"rounds"` // looks of each host an hour, as far as its owner allows
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

// Present are the present numbers of all directions between the hosts of a Status, in their order:
// [sender][receiver]. Those of a path stand in both directions.
type Present struct {
	Goodput   Matrix    `json:"goodput_bps"`
	RoundTrip Matrix    `json:"round_trip_s"`
	Loss      Matrix    `json:"loss"`     // 0…1
	Looked    [][]int64 `json:"looked_s"` // the last look that counts, since 1970; 0 is never
}

// NewRow returns the numbers of one sender to n receivers, none of which is known.
func NewRow(n int) Present {
	return Present{newMatrix(1, n), newMatrix(1, n), newMatrix(1, n), [][]int64{make([]int64, n)}}
}

// Add adds the row of the next sender to n receivers, and returns an error if it is of another size.
func (p *Present) Add(row Present, n int) error {
	for _, m := range []Matrix{row.Goodput, row.RoundTrip, row.Loss} {
		if len(m) != 1 || len(m[0]) != n || len(row.Looked) != 1 || len(row.Looked[0]) != n {
			return fmt.Errorf("not a row of %d numbers", n)
		}
	}
	p.Goodput, p.RoundTrip = append(p.Goodput, row.Goodput...), append(p.RoundTrip, row.RoundTrip...)
	p.Loss, p.Looked = append(p.Loss, row.Loss...), append(p.Looked, row.Looked...)
	return nil
}

// Problem is why the last look at a path does not count.
type Problem struct {
	Near string `json:"near"`
	Far  string `json:"far"`
	Text string `json:"text"`
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
