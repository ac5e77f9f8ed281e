package app

import (
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/core/units"
)

// The closed list of the events of changed and kept settings. Hosts are named as users know
// them.
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

// Advised is the catalogue's advice on the settings that a host is to get.
type Advised struct{ Host, Advice string }

// Lasting lists settings of a change that a restart of the host would not undo.
type Lasting struct {
	Host   string
	Knobs  []model.KnobID
	Within time.Duration // how long they are held; 0 means for the length of a run
}

// SetAgain is a program active on a host that may overwrite the changed setting.
type SetAgain struct {
	Host  string
	Claim model.Claim
}

// OneSided is a setting that only one end gets, although it is useful only if both ends agree
// on it.
type OneSided struct{ Knob model.KnobID }

// Doubted is a reason why the evidence for settings may not apply to a host.
type Doubted struct{ Host, Doubt string }

// Same counts the settings of a profile that a host has already.
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

// FrameMTU is the value of link.frame_mtu, in bytes, that a new MTU requires.
type FrameMTU struct{ Host, Value string }

// OtherMTU is the effect of different MTUs at the two ends of a link.
type OtherMTU struct {
	MTU  int    // of the link, if the other hosts on it are not known; else 0
	Text string // otherwise the effect
}

// Watching lists the targets that a host probes before and after a change, with their answers
// before it.
type Watching struct {
	Host    string
	Answers []probe.Result
	Risky   bool // the change can cut the link
}

// Untested is the reason why no transfer between the ends can prove a new MTU.
type Untested struct{ Reason string }

// Changed lists the settings that a host holds until they are confirmed or rolled back.
type Changed struct {
	Host    string
	System  string // its GOOS
	Changes []model.Change
}

// Held is a change that is rolled back by itself, as there is no user to confirm it.
type Held struct{ Within time.Duration }

// Around is a setting that has a host send small packets to a destination that a larger MTU
// has cut off.
type Around struct {
	Host, To string
	Setting  model.Assignment
}

// PartlyKept is a change of two hosts that was cut short while they confirmed it.
type PartlyKept struct {
	Named string // the far host as the user named it then, without secrets
	Time  time.Time
	Far   string             // name of the far host, if it was asked
	Holds []model.Assignment // what it still holds, if it was asked
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

// Unproven is something that is kept although nothing proves that it is better: if no other
// field gives a reason, the settings were not measured.
type Unproven struct {
	What       string // "session ID, setting NAME", or the name of a profile
	Distrusted bool   // its verdicts must not be believed
	Verdicts   string // those that do not say that it is better
	Guards     string // those that are violated
}

// OfTheFlow is a setting that is not kept because it belongs to the test traffic.
type OfTheFlow struct{ Setting model.Assignment }

// SmallestGood is the setting chosen from several that proved better: the smallest level that
// is good enough, or the combination that gained most.
type SmallestGood struct {
	Setting   string
	Others    []string      // that proved better too
	Tolerance units.Percent // how far below the best it may be; 0 if it gained most
}

// NotKept is a setting that was confirmed on a host and is no longer in force.
type NotKept struct {
	Host    string
	Setting session.Confirmation
}

// NothingToKeep is one of two hosts, on which there is nothing to keep.
type NothingToKeep struct{ Host string }

// KeptAlready is a host whose system makes settings permanent by itself.
type KeptAlready struct{ Host string }

// ToWrite lists the files that would be written on a host.
type ToWrite struct {
	Host  string
	Files session.Keeping
}

// TakenBack is a host whose files were restored because another host failed.
type TakenBack struct{ Host string }
