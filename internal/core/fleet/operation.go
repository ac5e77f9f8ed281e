package fleet

import (
	"errors"
	"fmt"

	"linerate/internal/core/plain"
)

// Do is what an operator may ask of a hub.
type Do string

// What an operator may ask for.
const (
	Drain  Do = "drain"  // no measurement with Host for Seconds, 0 for without end
	Resume Do = "resume" // the end of Drain
	Remove Do = "remove" // refuse Host from now on
	Test   Do = "test"   // a look at Host and Far as soon as both are free
	Invite Do = "invite" // a link with which hosts join for Seconds
	Apply  Do = "apply"  // Setup in the place of the one before
)

// Bounds of an operation.
const (
	longest     = 366 * day // s
	longestName = 64        // bytes
	mostUses    = 100_000
)

// Operation is what an operator asks of a hub.
type Operation struct {
	Do      Do     `json:"do"`
	Host    string `json:"host,omitempty"`
	Far     string `json:"far,omitempty"`
	Seconds int64  `json:"seconds,omitempty"`
	Uses    int64  `json:"uses,omitempty"` // Invite: hosts that may join, 0 for any number
	Setup   *Setup `json:"setup,omitempty"`
}

// Validate bounds and cleans the operation.
func (o *Operation) Validate() error {
	o.Host, o.Far = plain.Brief(o.Host, longestName), plain.Brief(o.Far, longestName)
	if o.Uses < 0 || o.Uses > mostUses {
		return fmt.Errorf("%d hosts are not between 1 and %d", o.Uses, mostUses)
	}
	if o.Seconds < 0 || o.Seconds > longest || o.Do == Invite && o.Seconds == 0 {
		return fmt.Errorf("a time of %d h is not between a second and %d days", o.Seconds/hour, longest/day)
	}
	if o.Do != Apply {
		return nil
	}
	if o.Setup == nil {
		return errors.New("no groups and nothing shared")
	}
	return o.Setup.Validate()
}

// Operated is the answer to an Operation.
type Operated struct {
	Text string `json:"text"`           // what was done
	Link string `json:"link,omitempty"` // Invite
}
