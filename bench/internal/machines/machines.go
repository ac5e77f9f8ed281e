// Package machines has linerate look at two whole machines in QEMU, near and far, each
// card of which is joined to the same card of the other one, for what needs a card, a
// driver or a kernel of its own. Of card K the addresses are 10.0.K.1 and 10.0.K.2.
package machines

import (
	"time"
)

// Card is one of both machines.
type Card struct {
	Model   string // as QEMU calls it
	Options string // more of its -device
}

// Look is a look at the path over a card.
type Look struct {
	Name string
	// Args are linerate's at near; "" is the address of far.
	Args []string
	Card int
	// Prefix stands before linerate: what it is to be started by.
	Prefix []string
	// During runs while linerate does, until its context ends; nil is nothing.
	During func(w Watched) error
}

// Watched is what a look in progress can be asked.
type Watched interface {
	// Flowing waits until payload flows over the card.
	Flowing() error
	// Pull pulls the wire out of both cards for a time.
	Pull(length time.Duration) error
}
