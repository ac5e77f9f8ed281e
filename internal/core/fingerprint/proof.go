package fingerprint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// MaxProof is the most bytes of a proof's text.
const MaxProof = 32 << 10

// version is the format version of a proof's text.
const version = 1

// Proof is the evidence for settings, stored beside them on a host: what was measured against
// what, how, and under which conditions.
type Proof struct {
	Version int        `json:"v"`
	Side    model.Host `json:"side"` // the host's end of the session
	Session string     `json:"session"`
	Setting string     `json:"setting"` // its name in the session
	Date    time.Time  `json:"date"`
	Far     string     `json:"far,omitempty"` // the far end as the user named it, without secrets
	// Kept and Before are the compared values, on both hosts: each knob of Kept has its earlier
	// value in Before, if known.
	Kept   []model.Assignment `json:"kept"`
	Before []model.Assignment `json:"before,omitempty"`

	Flow       model.Flow        `json:"flow"`
	Directions []model.Direction `json:"directions,omitempty"`
	Objective  model.Metric      `json:"objective,omitempty"`
	Guards     []model.Guard     `json:"guards,omitempty"`
	Margin     units.Percent     `json:"margin,omitempty"`
	Settle     time.Duration     `json:"settle_ns,omitempty"`

	Print Print `json:"fingerprint"`
}

// Prove returns the proof of the named setting of a session, not yet stored on a host. Settings
// of the test traffic are part of the method, not of the proven values.
func Prove(s *model.Session, name string) (Proof, error) {
	setting, ok := s.Plan.Setting(name)
	if !ok {
		return Proof{}, fmt.Errorf("session %s has no setting %q", s.ID, name)
	}
	base, _ := s.Plan.Setting(s.Plan.Baseline)
	p := Proof{
		Version: version, Session: s.ID, Setting: name, Date: s.Ended.UTC().Truncate(time.Second), Far: s.Far, Flow: s.Plan.Flow,
		Directions: s.Plan.Directions, Objective: s.Plan.Objective, Guards: s.Plan.Guards, Margin: s.Plan.Margin, Settle: s.Plan.Settle,
		Print: Take(s.Hosts, leastRoundTrip(s)),
	}
	if s.Ended.IsZero() {
		p.Date = s.Created.UTC().Truncate(time.Second)
	}
	for _, a := range setting.Assignments {
		p.Kept = append(p.Kept, a)
		before := a
		i := slices.IndexFunc(base.Assignments, func(b model.Assignment) bool { return b.Host == a.Host && b.Knob == a.Knob })
		f, _ := s.Facts(a.Host)
		old, known := f.Knobs[a.Knob].Get()
		switch {
		case i >= 0:
			before = base.Assignments[i]
		case a.Host != "" && known:
			before.Value = old
		default:
			continue
		}
		p.Before = append(p.Before, before)
	}
	p.Print = p.Print.Without(p.own()...)
	return p, nil
}

// own returns the conditions that the kept settings themselves change.
func (p Proof) own() []Key {
	var keys []Key
	for _, a := range p.Kept {
		if a.Knob == "link.mtu" {
			keys = append(keys, Of(a.Host, MTU))
		}
	}
	return keys
}

// leastRoundTrip returns the median of the least round trips of a session's valid runs, which
// one odd run does not move.
func leastRoundTrip(s *model.Session) fact.Of[time.Duration] {
	var all []time.Duration
	for _, r := range s.Runs {
		for _, v := range r.Values {
			if r.State == model.RunValid && v.Metric == model.RTTMin && v.Value > 0 {
				all = append(all, time.Duration(v.Value*float64(time.Second)))
			}
		}
	}
	if len(all) == 0 {
		return fact.Unknown[time.Duration]("no run reported it")
	}
	slices.Sort(all)
	return fact.Known(all[len(all)/2], "the runs")
}

// Whole reports whether the proof has everything that a repetition needs.
func (p Proof) Whole() bool {
	return len(p.Kept) > 0 && len(p.Before) == len(p.Kept) && len(p.Directions) > 0 && p.Flow.Engine != ""
}

// Profiled returns the proof of settings that came in a profile: the measurement is in the
// session.
func Profiled(session, setting string, date time.Time, print Print) Proof {
	return Proof{Version: version, Session: session, Setting: setting, Date: date, Print: print}
}

// Covers reports whether the host that stores the proof has a proven knob id with that value.
// Settings of a profile apply to that host, whichever it is.
func (p Proof) Covers(id model.KnobID, value string) bool {
	return slices.ContainsFunc(p.Kept, func(a model.Assignment) bool {
		return a.Knob == id && a.Value == value && (a.Host == p.Side || a.Host == "" && len(p.Before) == 0)
	})
}

// Seen returns the proof from the view of a session in which the host that stores it is the end
// side.
func (p Proof) Seen(side model.Host) Proof {
	if side == p.Side {
		return p
	}
	turn := map[model.Host]model.Host{model.Near: model.Far, model.Far: model.Near}
	turned := func(list []model.Assignment) []model.Assignment {
		out := slices.Clone(list)
		for i := range out {
			out[i].Host = turn[out[i].Host]
		}
		return out
	}
	p.Side, p.Print = side, p.Print.Turned()
	p.Kept, p.Before = turned(p.Kept), turned(p.Before)
	p.Directions = slices.Clone(p.Directions)
	for i, d := range p.Directions {
		if d != model.Both {
			p.Directions[i] = map[model.Direction]model.Direction{model.To: model.From, model.From: model.To}[d]
		}
	}
	return p
}

// Text returns the proof in its stored form.
func (p Proof) Text() (string, error) {
	b, err := json.Marshal(p)
	if err == nil && len(b) > MaxProof {
		err = fmt.Errorf("a proof of %d bytes, at most %d", len(b), MaxProof)
	}
	return string(b), err
}

// Read parses the text of a proof; it reports false for "" and for a newer linerate's proof.
// The error wraps ErrInvalid.
func Read(text string) (Proof, bool, error) {
	if text == "" {
		return Proof{}, false, nil
	}
	var p Proof
	if len(text) > MaxProof {
		return p, false, fmt.Errorf("a proof of %d bytes: %w", len(text), ErrInvalid)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, false, errors.Join(fmt.Errorf("read a proof: %w", err), ErrInvalid)
	}
	if p.Version != version {
		return p, false, nil
	}
	if p.Side != model.Near && p.Side != model.Far {
		return p, false, fmt.Errorf("a proof of host %.10q: %w", string(p.Side), ErrInvalid)
	}
	err := p.Print.Validate()
	return p, err == nil, err
}
