// Package machines runs linerate in two whole machines in QEMU, near and far, for tests that
// need a card, a driver or a kernel of their own. Each card is joined to the same card of the
// other machine. Card K has the addresses 10.0.K.1 and 10.0.K.2.
package machines

import (
	"time"
)

// Card is a card of both machines.
type Card struct {
	Model   string // QEMU's name
	Options string // further -device options
}

// Look is a run of linerate over a card.
type Look struct {
	Name string
	// Args are linerate's arguments at near; "" is the address of far.
	Args []string
	Card int
	// Prefix precedes linerate: the command that starts it.
	Prefix []string
	// During runs beside linerate, until its context ends; it may be nil.
	During func(w Watched) error
}

// Watched is a look in progress.
type Watched interface {
	// Flowing waits until payload flows over the card.
	Flowing() error
	// Pull unplugs the wire from both cards for a time.
	Pull(length time.Duration) error
}
