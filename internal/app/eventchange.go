package app

import (
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
)

// The closed list of the events of changed and kept settings. Hosts are named as
// people know them.
func (Advised) event()    {}
func (Lasting) event()    {}
func (SetAgain) event()   {}
func (OneSided) event()   {}
func (Doubted) event()    {}
func (Same) event()       {}
func (LargestMTU) event() {}
func (FrameMTU) event()   {}
func (OtherMTU) event()   {}
func (Watching) event()   {}
func (Untested) event()   {}
func (Changed) event()    {}
func (Held) event()       {}
func (Around) event()     {}
func (PartlyKept) event() {}

// Advised is what the catalogue advises about the settings that a host is to get.
type Advised struct{ Host, Advice string }

// Lasting are settings of a change that a restart of the host would not put back.
type Lasting struct {
	Host   string
	Knobs  []model.KnobID
	Within time.Duration // how long they are held; 0 for that of a run
}

// SetAgain is a program at work on a host that may set again what is changed.
type SetAgain struct {
	Host  string
	Claim model.Claim
}

// OneSided is a setting of which one end alone gets a new value, and which is of
// use only where both agree.
type OneSided struct{ Knob model.KnobID }

// Doubted is why the evidence for settings may not hold on a host.
type Doubted struct{ Host, Doubt string }

// Same says how many of the settings of a profile a host has already.
type Same struct {
	Host         string
	Settings, Of int
}

// LargestMTU is the MTU that link.mtu=max stands for on a host, in bytes.
type LargestMTU struct {
	Host string
	MTU  int
	Why  string
}

// FrameMTU is the value of link.frame_mtu, in bytes, that a new MTU brings with it.
type FrameMTU struct{ Host, Value string }

// OtherMTU is what becomes of the two ends of a link with different MTUs.
type OtherMTU struct {
	MTU  int    // of the link, where the other hosts on it are not known; else 0
	Text string // else what becomes of them
}

// Watching is who is asked before and after a change from a host, and how they
// answered before it.
type Watching struct {
	Host    string
	Answers []probe.Result
	Risky   bool // the change can cut the link
}

// Untested is why no transfer between the ends can prove a new MTU.
type Untested struct{ Reason string }

// Changed are the settings that a host holds until they are confirmed or go back.
type Changed struct {
	Host    string
	System  string // its GOOS
	Changes []model.Change
}

// Held is a change that goes back by itself, and that nobody is there to confirm.
type Held struct{ Within time.Duration }

// Around is a setting that has a host send small packets to somebody whom a larger
// MTU has lost.
type Around struct {
	Host, To string
	Setting  model.Assignment
}

// PartlyKept is a change of two hosts that was cut short while it was being kept.
type PartlyKept struct {
	Named string // the far host as it was named then, without secrets
	Time  time.Time
	Far   string             // name of the far host, where it was asked
	Holds []model.Assignment // what it still holds, where it was asked
	Gone  bool               // this machine was asked, and does not hold its half
}

// The closed list of the events of settings that are kept.
func (Unproven) event()      {}
func (OfTheFlow) event()     {}
func (SmallestGood) event()  {}
func (NotKept) event()       {}
func (NothingToKeep) event() {}
func (KeptAlready) event()   {}
func (ToWrite) event()       {}
func (TakenBack) event()     {}

// Unproven is something that is kept although nothing proves that it is better:
// the settings were not measured, where no other field says why.
type Unproven struct {
	What       string // "session ID, setting NAME", or the name of a profile
	Distrusted bool   // its verdicts must not be believed
	Verdicts   string // that do not say that it is better
	Guards     string // that do not hold
}

// OfTheFlow is a setting that is not kept, since it belongs to the test traffic.
type OfTheFlow struct{ Setting model.Assignment }

// SmallestGood is the setting that was chosen of several that proved better: the
// smallest level that is good enough, or the combination that gained most.
type SmallestGood struct {
	Setting   string
	Others    []string      // that proved better too
	Tolerance units.Percent // how far below the best it may be; 0 where it gained most
}

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
