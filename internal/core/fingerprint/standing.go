package fingerprint

import (
	"slices"
	"time"

	"linerate/internal/core/model"
)

// Kept is a setting kept on a host, and its evidence.
type Kept struct {
	Knob   model.KnobID
	Value  string // canonical
	Proof  Proof
	Proven bool      // Proof exists and is about this value
	Since  time.Time // when it was kept; zero if never
	Record string    // of the host that stores Proof; "" if it is not stored
}

// State is the status of a kept setting.
type State string

// The states.
const (
	Proven    State = "proven"       // no known condition has changed since
	Unproven  State = "unproven"     // a condition has changed, or it was never measured
	Still     State = "still better" // measured again
	NoLonger  State = "no longer"    // measured again: not better, or harmful
	Undecided State = "undecided"    // measured again: not enough data
)

// Standing is the status of a kept setting, and its reason.
type Standing struct {
	Knob    model.KnobID `json:"knob"`
	Value   string       `json:"value"`
	Before  string       `json:"before,omitempty"` // the value it was compared with; "" if unknown
	State   State        `json:"state"`
	Changes []Change     `json:"changes,omitempty"` // of the conditions, since it was proven
	Kept    Kept         `json:"-"`
}

// Look returns the status of a kept setting by its conditions, without measuring.
func (k Kept) Look(now Print) Standing {
	s := Standing{Knob: k.Knob, Value: k.Value, State: Proven, Kept: k}
	i := slices.IndexFunc(k.Proof.Before, func(a model.Assignment) bool { return a.Host == k.Proof.Side && a.Knob == k.Knob })
	if i >= 0 {
		s.Before = k.Proof.Before[i].Value
	}
	if k.Proven {
		s.Changes = k.Proof.Print.Changes(now)
	}
	if !k.Proven || len(k.Proof.Print) == 0 || len(s.Changes) > 0 {
		s.State = Unproven
	}
	return s
}

// String formats the status: "unproven since kernel 6.19 -> 7.0 at the far end".
func (s Standing) String() string {
	switch {
	case s.State == Proven:
		return "proven on " + s.Kept.Proof.Date.Format(time.DateOnly)
	case s.State == Unproven && len(s.Changes) > 0:
		return "unproven since " + Since(s.Changes)
	case s.State == Unproven && s.Kept.Proven:
		return "unproven: the conditions of its measurement are not recorded"
	case s.State == Unproven:
		return "unproven: not measured"
	}
	return string(s.State)
}

// Judge returns the status of a setting from verdicts on it against the earlier values: those
// of the objective, in each direction, and of the guards.
func Judge(p model.Plan, verdicts []model.Verdict, name string) State {
	better, open := false, false
	for _, v := range verdicts {
		if v.Setting != name || v.IsTwin {
			continue
		}
		if v.Guard != nil && v.Guard.State == model.GuardViolated {
			return NoLonger
		}
		if !p.DecidedBy(&v) {
			continue
		}
		switch v.Outcome {
		case model.Better:
			better = true
		case model.Worse:
			return NoLonger
		case model.Undecided:
			open = true
		case model.Equivalent:
		}
	}
	switch {
	case better:
		return Still
	case open:
		return Undecided
	}
	return NoLonger
}
