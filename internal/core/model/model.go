// Package model holds the values that flow through linerate: plan, run,
// sample, report of an end, finding, verdict, session. They have no behaviour
// beyond small look-ups and know no clock, file, socket or database.
package model

import (
	"encoding/json"
	"math"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Host names one end of a session. Near is where the test is steered from
// unless the user says otherwise; Far is the other end.
type Host string

// The two ends.
const (
	Near Host = "a"
	Far  Host = "b"
)

// ParseHost reads the word for an end: near or far, or its short form a or b.
func ParseHost(word string) (Host, bool) {
	switch word {
	case string(Near), "near":
		return Near, true
	case string(Far), "far":
		return Far, true
	}
	return "", false
}

// Direction says which way payload flows between the ends.
type Direction string

// The directions. Both means To and From at the same time.
const (
	To   Direction = "to"   // near sends, far receives
	From Direction = "from" // far sends, near receives
	Both Direction = "both"
)

// Sender returns the end that sends in direction d, which is To or From.
func (d Direction) Sender() Host {
	if d == From {
		return Far
	}
	return Near
}

// Receiver returns the end that receives in direction d, which is To or From.
func (d Direction) Receiver() Host {
	if d == From {
		return Near
	}
	return Far
}

// Parts returns the single directions that d consists of.
func (d Direction) Parts() []Direction {
	if d == Both {
		return []Direction{To, From}
	}
	return []Direction{d}
}

// KnobID is the neutral name of a setting, for example "tcp.recv_buffer_max"
// (a host's) or "window" (of the test flow; no host is changed).
type KnobID string

// Assignment gives one knob one value. Host is empty for a knob of the flow.
type Assignment struct {
	Host  Host   `json:"host,omitempty"`
	Knob  KnobID `json:"knob"`
	Value string `json:"value"` // canonical text: bytes as a decimal count, switches as 0 or 1
}

// Setting is a named set of assignments. A setting without assignments is the
// hosts and the flow as they are.
type Setting struct {
	Name        string       `json:"name"`
	Assignments []Assignment `json:"assignments,omitempty"`
}

// RunState says how a run stands.
type RunState string

// The states of a run.
const (
	RunPlanned     RunState = "planned"
	RunValid       RunState = "valid"
	RunInvalid     RunState = "invalid"     // Reason says why; its whole block does not count
	RunInterrupted RunState = "interrupted" // the user stopped it; its block starts anew on resuming
)

// Run is one application of one setting, measured once.
type Run struct {
	Number      int         `json:"number"`   // 1… in the order of execution in the session
	Block       int         `json:"block"`    // 1…
	Attempt     int         `json:"attempt"`  // 1 for the block's first try; an invalid run repeats the block
	Position    int         `json:"position"` // 1… inside the block
	Setting     string      `json:"setting"`
	Flow        Flow        `json:"flow"`
	Started     time.Time   `json:"started"`
	Ended       time.Time   `json:"ended"`
	State       RunState    `json:"state"`
	LostContact bool        `json:"lost_contact,omitempty"` // the run is invalid because a host went away
	Reason      string      `json:"reason,omitempty"`
	Values      []Value     `json:"values,omitempty"`
	Ends        []EndReport `json:"ends,omitempty"`
	Warnings    []string    `json:"warnings,omitempty"`
}

// Value is a run's one number for one metric and direction.
type Value struct {
	Direction Direction `json:"direction,omitempty"`
	Metric    Metric    `json:"metric"`
	Value     float64   `json:"value"`
}

// Value returns the run's number for m in direction d.
func (r *Run) Value(d Direction, m Metric) (float64, bool) {
	for _, v := range r.Values {
		if v.Direction == d && v.Metric == m {
			return v.Value, true
		}
	}
	return 0, false
}

// Mode says how an experiment ends.
type Mode string

// The modes of statistics.md sections 4 and 5; they are never mixed.
const (
	FixedBlocks Mode = "fixed"      // a number of blocks given beforehand, one look at the end
	Sequential  Mode = "sequential" // until decided, evidence that may be looked at any time
)

// Plan is an experiment, complete before its first run: Order fixes what runs
// when, so that an interrupted session continues as if nothing had happened.
type Plan struct {
	Settings   []Setting     `json:"settings"`            // Settings[Baseline] is what others are compared with
	Baseline   string        `json:"baseline"`            // name of a setting
	Twin       string        `json:"twin,omitempty"`      // name of the null twin among Settings, "" for none
	Factor     KnobID        `json:"factor,omitempty"`    // the one numeric knob whose levels the settings are, if so
	Levels     []string      `json:"levels,omitempty"`    // names of the settings that are Factor's levels, ascending
	Flow       Flow          `json:"flow"`                // of every run, before a setting's flow knobs
	Directions []Direction   `json:"directions"`          // each setting of a block is run once per entry, in random order
	Mode       Mode          `json:"mode"`                //
	MaxBlocks  int           `json:"max_blocks"`          // number of blocks (fixed) or most blocks (sequential)
	Budget     time.Duration `json:"budget_ns"`           // most time for the whole; 0 is no limit
	Objective  Metric        `json:"objective,omitempty"` // the metric that decides; "" is Goodput, as in plans before there was a choice
	Guards     []Guard       `json:"guards,omitempty"`    // what a setting must not harm, whatever it gains
	Margin     units.Percent `json:"margin"`              // smallest change that matters
	Tolerance  units.Percent `json:"tolerance"`           // of the plateau search
	Confidence float64       `json:"confidence"`          // 0.95
	Settle     time.Duration `json:"settle_ns"`           // after applying a setting
	Cooldown   time.Duration `json:"cooldown_ns"`         // after each run
	Seed       uint64        `json:"seed"`                //
	NullBlocks int           `json:"null_blocks"`         // first so many blocks are baseline pairs (two settings only)
	Order      [][]string    `json:"order"`               // names of settings, per block; len is NullBlocks + MaxBlocks
	Search     *RateSearch   `json:"search,omitempty"`    // instead of blocks: the highest rate with little loss
	Path       DataPath      `json:"path,omitzero"`       // how its data connections are made
	Tests      []Test        `json:"tests,omitempty"`     // instead of blocks: one run each, in this order
}

// Decides returns the metric that decides the plan's comparisons.
func (p *Plan) Decides() Metric {
	if p.Objective == "" {
		return Goodput
	}
	return p.Objective
}

// Guard is a metric that a setting must not worsen by Margin or more
// (statistics.md section 6.4).
type Guard struct {
	Metric  Metric  `json:"metric"`
	Margin  float64 `json:"margin"`            // percent; of metrics that can be 0 in their own unit: 0.005 of loss is half a percent of all packets
	Default bool    `json:"default,omitempty"` // nobody asked for it: where runs have no such value, it does not count
}

// RateSearch asks for the highest rate of paced UDP whose loss stays below a
// limit; package search answers.
type RateSearch struct {
	Low        units.BitRate `json:"low"`        // least rate in question, payload
	High       units.BitRate `json:"high"`       // greatest rate in question
	Limit      float64       `json:"limit"`      // of loss, 0…1
	Resolution float64       `json:"resolution"` // 0.02 is 2 %
	Repeats    int           `json:"repeats"`    // runs at the rate that was found
}

// Setting returns the setting named name.
func (p *Plan) Setting(name string) (Setting, bool) {
	for _, s := range p.Settings {
		if s.Name == name {
			return s, true
		}
	}
	return Setting{}, false
}

// RunLength returns how long one run of the plan takes at least, with settling
// and cool-down; 0 for the measured part when a byte count ends it.
func (p *Plan) RunLength() time.Duration {
	measured := p.Flow.Length()
	if p.Flow.Points > 0 && p.Flow.Duration == 0 {
		measured = time.Duration(p.Flow.Points) * sizeTime
	}
	return p.Settle + measured + p.Cooldown
}

// sizeTime is about what a message size of a sweep takes; only a forecast.
const sizeTime = 200 * time.Millisecond

// HostFacts is what an agent says of its host at the start of a session.
type HostFacts struct {
	Host      Host                   `json:"host"`
	Name      string                 `json:"name"`
	OS        string                 `json:"os"`   // GOOS
	Arch      string                 `json:"arch"` // GOARCH
	Kernel    fact.Of[string]        `json:"kernel"`
	CPUs      int                    `json:"cpus"`
	Version   string                 `json:"version"`   // linerate's
	Address   string                 `json:"address"`   // of the data path, as seen from this end
	Interface fact.Of[string]        `json:"interface"` // that carries the data path
	MTU       fact.Of[int]           `json:"mtu"`       // of Interface, bytes
	LinkRate  fact.Of[units.BitRate] `json:"link_rate"` // of Interface
	// PathRate is the slowest link on the way from this host to its peer, where
	// somebody knows that for this direction: of a lab, its wire.
	PathRate   fact.Of[units.BitRate]     `json:"path_rate,omitzero"`
	Congestion fact.Of[string]            `json:"congestion"`
	Qdisc      fact.Of[string]            `json:"qdisc"` // of Interface
	Knobs      map[KnobID]fact.Of[string] `json:"knobs"` // current values
	Machine    *Machine                   `json:"machine,omitempty"`
	Route      *Route                     `json:"route,omitempty"`
	NICs       []NIC                      `json:"nics,omitempty"` // the one that leads to the peer first
	Path       []Hop                      `json:"path,omitempty"` // to the peer; the interface that packets leave by comes first
}

// SessionState says how a session stands.
type SessionState string

// The states of a session.
const (
	SessionRunning     SessionState = "running"
	SessionDone        SessionState = "done"        // decided, or planned blocks or budget spent
	SessionInterrupted SessionState = "interrupted" // may be resumed
	SessionStopped     SessionState = "stopped"     // was running, and its process is gone without a word; may be resumed
	SessionFailed      SessionState = "failed"
)

// Kind is what sort of session it is.
type Kind string

// The kinds.
const (
	KindTest   Kind = "test"   // linerate test
	KindRun    Kind = "run"    // an experiment
	KindSweep  Kind = "sweep"  // linerate sweep: message sizes
	KindCopy   Kind = "copy"   // linerate copy: files
	KindCheck  Kind = "check"  // linerate check: what is amiss, and what limits
	KindTune   Kind = "tune"   // linerate tune: a search for better settings
	KindServed Kind = "served" // a test of another program's client with linerate serve
)

// Session is everything of one experiment but its samples.
type Session struct {
	ID       string                 `json:"id"` // sortable, unique: 20261121T013209-x7k2
	Kind     Kind                   `json:"kind"`
	Title    string                 `json:"title"`
	Command  []string               `json:"command"` // as the user gave it, secrets removed
	Near     string                 `json:"near"`    // target text of the near end, secrets removed
	Far      string                 `json:"far"`
	Version  string                 `json:"version"` // of the controller
	Created  time.Time              `json:"created"`
	Ended    time.Time              `json:"ended,omitzero"`
	State    SessionState           `json:"state"`
	Reason   string                 `json:"reason,omitempty"` // why it ended
	Plan     Plan                   `json:"plan"`
	Hosts    []HostFacts            `json:"hosts"`
	WireRate fact.Of[units.BitRate] `json:"wire_rate"` // slowest link known on the path
	Runs     []Run                  `json:"runs"`
	Changes  []Change               `json:"changes,omitempty"`
	Findings []Finding              `json:"findings,omitempty"`
	Verdicts []Verdict              `json:"verdicts,omitempty"`
	Plateaus []Plateau              `json:"plateaus,omitempty"`
	Noise    []Noise                `json:"noise,omitempty"` // what the baseline compared with itself showed
	Check    *Check                 `json:"check,omitempty"`
	Warnings []string               `json:"warnings,omitempty"`
	Tuning   Params                 `json:"tuning,omitempty"` // the course of a search, which package tune reads
}

// Facts returns what host h said of itself. It reports false, with all facts
// unknown, where it said nothing.
func (s *Session) Facts(h Host) (HostFacts, bool) {
	for _, f := range s.Hosts {
		if f.Host == h {
			return f, true
		}
	}
	return HostFacts{Host: h}, false
}

// ChangeState says what became of a change to a host.
type ChangeState string

// The states of a change.
const (
	ChangeApplied ChangeState = "applied"
	ChangeUndone  ChangeState = "undone"
	ChangeForeign ChangeState = "foreign" // somebody else changed the knob meanwhile: left alone
	ChangeFailed  ChangeState = "failed"  // Detail says why
)

// Change is one knob of one host changed by linerate, and what became of it.
type Change struct {
	Run    int         `json:"run"` // number of the run that it was made for
	Host   Host        `json:"host"`
	Knob   KnobID      `json:"knob"`
	Native string      `json:"native"` // "net.ipv4.tcp_rmem"
	Old    string      `json:"old"`    // native text before
	New    string      `json:"new"`    // native text written
	State  ChangeState `json:"state"`
	Detail string      `json:"detail,omitempty"`
}

// FindingKind says what sort of answer a finding is.
type FindingKind string

// The kinds. Limits come first, by what they explain; a direction without one has
// exactly one of the three answers that name none.
const (
	FindingLimit    FindingKind = ""            // this limits the direction
	FindingBeside   FindingKind = "beside"      // true and worth knowing, but not what limits the direction
	FindingFull     FindingKind = "full"        // nothing to tune: the path carries what it can
	FindingOutside  FindingKind = "outside"     // what limits lies outside both hosts
	FindingNotFound FindingKind = "not found"   // there is a gap, and nothing that was looked at explains it
	FindingTooShort FindingKind = "no evidence" // too little was measured to say anything
)

// Finding is one thing that limits a direction, or the answer that nothing known
// does, with its evidence.
type Finding struct {
	Rule      string                 `json:"rule"` // "B07" of the diagnosis rules
	Kind      FindingKind            `json:"kind,omitempty"`
	Direction Direction              `json:"direction"`
	Host      Host                   `json:"host"`              // the end that it belongs to and where it can be changed; "" for the path
	Limit     string                 `json:"limit"`             // "receive window"
	Evidence  string                 `json:"evidence"`          // the main line of evidence
	Share     fact.Of[float64]       `json:"share"`             // of busy time, 0…1
	Implied   fact.Of[units.BitRate] `json:"implied"`           // the rate that the limit allows
	Explains  fact.Of[float64]       `json:"explains,omitzero"` // share of the gap between the measured rate and the ceiling that it explains, 0…1
	// Confidence is the probability that the finding is right, 0…1, as far as it
	// was ever checked against known limits; 0 where nobody knows.
	Confidence float64   `json:"confidence,omitempty"`
	Proof      []Proof   `json:"proof,omitempty"`
	Missing    []Missing `json:"missing,omitempty"`   // evidence that would make it surer
	Knobs      []KnobID  `json:"knobs,omitempty"`     // that could help; package candidate has values for them
	NoKnob     string    `json:"no_knob,omitempty"`   // why no setting of either host helps, and what does
	RuledOut   []string  `json:"ruled_out,omitempty"` // what was looked at and is not the limit, where none was found
	Loss       bool      `json:"loss,omitempty"`      // about lost datagrams: Share is of these, and Evidence the whole sentence
}

// Proof is one line of evidence.
type Proof struct {
	Text   string `json:"text"`
	Source string `json:"source"` // who counted it: "TCP_INFO", "tcp_timeouts of nas"
}

// Missing is evidence that a rule would have liked to have.
type Missing struct {
	What string `json:"what"` // "counters of nas"
	How  string `json:"how"`  // how to get it: "linerate check"
}

// Outcome is a verdict's word. Only package analysis chooses one.
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

// Bound is an end of an interval; infinite where the data do not bound it yet,
// which JSON shows as null.
type Bound float64

// MarshalJSON writes null for an infinite bound.
func (b Bound) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(b), 0) || math.IsNaN(float64(b)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(b))
}

// UnmarshalJSON reads what MarshalJSON writes. null becomes NaN, since the
// number alone does not say which end it is; Interval puts the sign right.
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

// GuardState says how a guard stands for one setting.
type GuardState string

// The states of a guard.
const (
	GuardHolds      GuardState = "holds"      // harm as large as the margin is ruled out
	GuardViolated   GuardState = "violated"   // harm of the margin or more is shown
	GuardOpen       GuardState = "open"       // neither is shown yet
	GuardUnmeasured GuardState = "unmeasured" // no run of the setting and the baseline has a value
)

// GuardCheck is how one guard stands for one setting. Only GuardHolds lets the
// setting be kept.
type GuardCheck struct {
	Guard
	State      GuardState `json:"state"`
	MoreBlocks int        `json:"more_blocks,omitempty"` // about so many more to hold, where it is open
}

// Noise is how far the baseline is from itself in the metric that decides
// (statistics.md sections 5.4 and 7.1).
type Noise struct {
	Direction Direction `json:"direction"`
	Metric    Metric    `json:"metric"`
	Source    string    `json:"source"`   // "baseline pairs" or "twin"
	Pairs     int       `json:"pairs"`    // differences behind it
	Sigma     float64   `json:"sigma"`    // standard deviation of a block difference, log ratio, or in the metric's unit where it can be 0
	Upper     float64   `json:"upper"`    // its upper bound for planning, 80 %
	Checked   bool      `json:"checked"`  // enough differences to tell whether the baseline differs from itself
	Evidence  float64   `json:"evidence"` // that it does, 1 is none; from 200 on no verdict counts
}

// Verdict is what the session says of one setting against the baseline.
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
	Family     *Interval   `json:"family,omitempty"`      // level for all comparisons together, when there are several
	P          *float64    `json:"p,omitempty"`           // adjusted; fixed mode only
	Evidence   *float64    `json:"evidence,omitempty"`    // largest E against no difference; sequential mode only
	MoreBlocks int         `json:"more_blocks,omitempty"` // about so many more to decide, when undecided
	Reason     string      `json:"reason,omitempty"`
	IsTwin     bool        `json:"is_twin,omitempty"`
	Guard      *GuardCheck `json:"guard,omitempty"` // where the metric is one of the plan's guards
	Warnings   []string    `json:"warnings,omitempty"`
}

// Plateau is the smallest level of the session's factor that is good enough.
type Plateau struct {
	Direction Direction     `json:"direction"`
	Metric    Metric        `json:"metric"`
	Decided   bool          `json:"decided"`
	Level     string        `json:"level,omitempty"`    // name of the setting; "" where decided that only the baseline is good enough
	Baseline  string        `json:"baseline,omitempty"` // that takes part in what is best
	Leave     bool          `json:"leave,omitempty"`    // the baseline itself is surely within Tolerance of every level
	From      string        `json:"from,omitempty"`     // range of possible answers when not decided
	To        string        `json:"to,omitempty"`
	Tolerance units.Percent `json:"tolerance"`
	Reason    string        `json:"reason,omitempty"`
}
