package model

import (
	"encoding/json"
	"math"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// FindingKind is the kind of a finding.
type FindingKind string

// The kinds. Limits come first, by what they explain; a direction without one has exactly one
// of the three answers that name no limit.
const (
	FindingLimit    FindingKind = ""            // this limits the direction
	FindingBeside   FindingKind = "beside"      // true and relevant, but not what limits the direction
	FindingFull     FindingKind = "full"        // nothing to tune: the path carries what it can
	FindingOutside  FindingKind = "outside"     // the limit lies outside both hosts
	FindingNotFound FindingKind = "not found"   // there is a gap, and nothing examined explains it
	FindingTooShort FindingKind = "no evidence" // too little data for any finding
)

// Finding is one limit of a direction, or the answer that there is no known one, with its
// evidence.
type Finding struct {
	Rule      string                 `json:"rule"` // "B07" of the diagnosis rules
	Kind      FindingKind            `json:"kind,omitempty"`
	Direction Direction              `json:"direction"`
	Host      Host                   `json:"host"`              // the end that it concerns and where it can be changed; "" for the path
	Limit     string                 `json:"limit"`             // "receive window"
	Evidence  string                 `json:"evidence"`          // the main line of evidence
	Share     fact.Of[float64]       `json:"share"`             // of busy time, 0…1
	Implied   fact.Of[units.BitRate] `json:"implied"`           // the rate that the limit allows
	Explains  fact.Of[float64]       `json:"explains,omitzero"` // share of the gap between the measured rate and the ceiling, 0…1
	// Confidence is the probability that the finding is right, 0…1, from checks against known
	// limits; 0 if unknown.
	Confidence float64   `json:"confidence,omitempty"`
	Proof      []Proof   `json:"proof,omitempty"`
	Missing    []Missing `json:"missing,omitempty"`   // evidence that would raise the confidence
	Knobs      []KnobID  `json:"knobs,omitempty"`     // that could help; package candidate has values for them
	NoKnob     string    `json:"no_knob,omitempty"`   // why no setting of either host helps, and what does
	RuledOut   []string  `json:"ruled_out,omitempty"` // what was examined and is not the limit, if none was found
	Place      *Place    `json:"place,omitempty"`     // of the limit on the path, if known
	Loss       bool      `json:"loss,omitempty"`      // about lost datagrams: Share is of these, and Evidence the whole sentence
}

// Proof is one line of evidence.
type Proof struct {
	Text   string `json:"text"`
	Source string `json:"source"` // its origin: "TCP_INFO", "tcp_timeouts of nas"
}

// Missing is evidence that a rule lacked.
type Missing struct {
	What string `json:"what"` // "counters of nas"
	How  string `json:"how"`  // how to get it: "linerate check"
}

// Outcome is the result of a verdict. Only package analysis sets it.
type Outcome string

// The outcomes.
const (
	Better     Outcome = "better"
	Worse      Outcome = "worse"
	Equivalent Outcome = "equivalent" // no difference larger than the margin
	Undecided  Outcome = "undecided"  // not enough data
)

// Interval is a range of a change with the confidence that it holds. The
// numbers are log ratios for metrics that are never 0; infinite when unbounded.
type Interval struct {
	Low        Bound   `json:"low"`
	High       Bound   `json:"high"`
	Confidence float64 `json:"confidence"` // achieved, 0…1
	Method     string  `json:"method"`     // "exact signed-rank", "t", "sign evidence"
}

// Bound is an end of an interval; infinite, or null in JSON, if the data do not bound it yet.
type Bound float64

// MarshalJSON writes null for an infinite bound.
func (b Bound) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 0) || math.IsNaN(float64(b)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(b))
}

// UnmarshalJSON reads the output of MarshalJSON. null becomes NaN, since the number alone does
// not say which end it is; Interval sets the sign.
func (b *Bound) UnmarshalJSON(p []byte) error {
	if string(p) == "null" {
		*b = Bound(math.NaN())
		return nil
	}
	return json.Unmarshal(p, (*float64)(b))
}

// UnmarshalJSON reads an interval; a null bound is infinite.
func (i *Interval) UnmarshalJSON(p []byte) error {
	type plain Interval
	v := plain{Low: Bound(math.NaN()), High: Bound(math.NaN())}
	if err := json.Unmarshal(p, &v); err != nil {
		return err
	}
	if math.IsNaN(float64(v.Low)) {
		v.Low = Bound(math.Inf(-1))
	}
	if math.IsNaN(float64(v.High)) {
		v.High = Bound(math.Inf(1))
	}
	*i = Interval(v)
	return nil
}

// GuardState is the state of a guard for one setting.
type GuardState string

// The states of a guard.
const (
	GuardHolds      GuardState = "holds"      // harm as large as the margin is ruled out
	GuardViolated   GuardState = "violated"   // harm of the margin or more is shown
	GuardOpen       GuardState = "open"       // neither is shown yet
	GuardTolerable  GuardState = "tolerable"  // in profiles: open, but harm of three margins is ruled out
	GuardUnmeasured GuardState = "unmeasured" // no run of the setting and the baseline has a value
)

// GuardCheck is the state of one guard for one setting. Package analysis decides what it means
// for keeping the setting.
type GuardCheck struct {
	Guard
	State GuardState `json:"state"`
	// Tolerable says that the data rule out harm of three margins (metric.Tolerable): the user
	// may decide about an open guard.
	Tolerable bool `json:"tolerable,omitempty"`
	// Negligible says that the guard holds since the metric stays too small for harm
	// (metric.IsNegligible).
	Negligible bool `json:"negligible,omitempty"`
	// EqualLoad says in how many blocks the candidate ran at the baseline's goodput for this
	// guard, since it was worse at its own.
	EqualLoad  int `json:"equal_load,omitempty"`
	MoreBlocks int `json:"more_blocks,omitempty"` // about this many more to hold, if open
}

// Noise is how far the objective of the baseline differs from itself (statistics.md sections
// 5.4 and 7.1).
type Noise struct {
	Direction Direction `json:"direction"`
	Metric    Metric    `json:"metric"`
	Source    string    `json:"source"`   // "baseline pairs" or "twin"
	Pairs     int       `json:"pairs"`    // number of differences
	Sigma     float64   `json:"sigma"`    // standard deviation of a block difference, log ratio, or in the metric's unit if it can be 0
	Upper     float64   `json:"upper"`    // its upper bound for planning, 80 %
	Checked   bool      `json:"checked"`  // enough differences to test whether the baseline differs from itself
	Evidence  float64   `json:"evidence"` // that it does, 1 is none; from 200 on no verdict counts
}

// Verdict is the session's result for one setting against the baseline.
type Verdict struct {
	Setting    string      `json:"setting"`
	Baseline   string      `json:"baseline"`
	Direction  Direction   `json:"direction"`
	Metric     Metric      `json:"metric"`
	Outcome    Outcome     `json:"outcome"`
	Size       string      `json:"size,omitempty"` // "small", "at least the margin" or ""
	Blocks     int         `json:"blocks"`
	Estimate   float64     `json:"estimate"` // log ratio, positive is good
	Interval   Interval    `json:"interval"`
	Family     *Interval   `json:"family,omitempty"`      // level for all comparisons together, if there are several
	P          *float64    `json:"p,omitempty"`           // adjusted; fixed mode only
	Evidence   *float64    `json:"evidence,omitempty"`    // largest E against no difference; sequential mode only
	MoreBlocks int         `json:"more_blocks,omitempty"` // about this many more to decide, if undecided
	Reason     string      `json:"reason,omitempty"`
	IsTwin     bool        `json:"is_twin,omitempty"`
	Guard      *GuardCheck `json:"guard,omitempty"` // if the metric is one of the plan's guards
	Warnings   []string    `json:"warnings,omitempty"`
}

// MarshalJSON writes a NaN estimate as null.
func (v Verdict) MarshalJSON() ([]byte, error) {
	type plain Verdict
	return json.Marshal(struct {
		plain
		Estimate Bound `json:"estimate"`
	}{plain(v), Bound(v.Estimate)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (v *Verdict) UnmarshalJSON(p []byte) error {
	type plain Verdict
	var read struct {
		plain
		Estimate Bound `json:"estimate"`
	}
	err := json.Unmarshal(p, &read)
	*v = Verdict(read.plain)
	v.Estimate = float64(read.Estimate)
	return err
}

// Plateau is the smallest level of the session's factor that is good enough.
type Plateau struct {
	Direction Direction     `json:"direction"`
	Metric    Metric        `json:"metric"`
	Decided   bool          `json:"decided"`
	Level     string        `json:"level,omitempty"`    // name of the setting; "" if only the baseline is good enough
	Baseline  string        `json:"baseline,omitempty"` // compared along with the levels
	Leave     bool          `json:"leave,omitempty"`    // the baseline itself is provably within Tolerance of every level
	From      string        `json:"from,omitempty"`     // range of possible answers if not decided
	To        string        `json:"to,omitempty"`
	Tolerance units.Percent `json:"tolerance"`
	Reason    string        `json:"reason,omitempty"`
}
