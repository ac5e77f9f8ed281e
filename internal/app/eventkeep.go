package app

import (
	"linerate/internal/control/session"
	"linerate/internal/core/model"
)

// The closed list of the events of settings that are kept.
func (Unproven) event()      {}
func (OfTheFlow) event()     {}
func (NotKept) event()       {}
func (NothingToKeep) event() {}
func (KeptAlready) event()   {}
func (ToWrite) event()       {}
func (TakenBack) event()     {}

// Unproven is something that is kept although nothing proves that it is better:
// nobody measured it, where no other field says why.
type Unproven struct {
	What       string // "session ID, setting NAME", or the name of a profile
	Distrusted bool   // its verdicts must not be believed
	Verdicts   string // that do not say that it is better
	Guards     string // that do not hold
}

// OfTheFlow is a setting that is not kept, since it belongs to the test traffic.
type OfTheFlow struct{ Setting model.Assignment }

// NotKept is a setting that was confirmed on a host and holds no more.
type NotKept struct {
	Host    string
	Setting session.Confirmation
}

// NothingToKeep is a host of two on which there is nothing to keep.
type NothingToKeep struct{ Host string }

// KeptAlready is a host whose system keeps what is set by itself.
type KeptAlready struct{ Host string }

// ToWrite is what would be written on a host.
type ToWrite struct {
	Host  string
	Files session.Keeping
}

// TakenBack is a host whose files are as they were, since another one failed.
type TakenBack struct{ Host string }
