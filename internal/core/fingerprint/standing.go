package fingerprint

import (
	"slices"
	"time"

	"linerate/internal/core/model"
)

// Kept is a setting that is kept on a host, and how it is known to be good.
type Kept struct {
	Knob   model.KnobID
	Value  string // canonical
	Proof  Proof
	Proven bool      // Proof is there, and is about this value
	Since  time.Time // when it was kept; zero where it never was
	Record string    // of the host beside which Proof lies; "" where it lies nowhere
}

// State says how a kept setting stands.
type State string

// The states.
const (
	Proven    State = "proven"       // nothing that is known has changed since
	Unproven  State = "unproven"     // something has, or it is not measured
	Still     State = "still better" // measured again
	NoLonger  State = "no longer"    // measured again, and not better, or harmful
	Undecided State = "undecided"    // measured again, and too little to say
)

// Standing is how a kept setting stands, and why.
type Standing struct {
	Knob    model.KnobID `json:"knob"`
	Value   string       `json:"value"`
	Before  string       `json:"before,omitempty"` // what it was compared with; "" where that is not known
	State   State        `json:"state"`
	Changes []Change     `json:"changes,omitempty"` // of the conditions, since it was proven
	Kept    Kept         `json:"-"`
}

// Look says how a kept setting stands as far as the conditions tell, without measuring.
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

// String says how it stands: "unproven since kernel 6.19 -> 7.0 at the far end".
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

// Judge is how a setting stands by verdicts on it against what was before: those of the
// metric that decides, in each direction, and the guards.
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
