// Package model holds the values that flow through linerate: plan, run,
// sample, report of an end, finding, verdict, session. They have no behaviour
// beyond small look-ups and know no clock, file, socket or database.
package model

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

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
	Value string `json:"value" bound:"value"` // canonical text: bytes as a decimal count, switches as 0 or 1; of a command On or Off
	// Command is what a factor does that is no knob; its Knob begins with CommandPrefix.
	Command Command `json:"command,omitzero"`
}

// CommandPrefix begins the KnobID of a command: "cmd:shaper".
const CommandPrefix = "cmd:"

// HookKnob is the KnobID of the commands that stand around every run, the baseline's
// too: they are no factor. No factor can be called so.
const HookKnob = CommandPrefix + "before+after"

// The levels of a command: it was run, and will be undone, or it was not.
const (
	On  = "on"
	Off = "off"
)

// Command is what a person gives to turn something on and off that linerate has no
// knob for: a shaper, a driver, a VPN. Both texts are for the shell of the host. The
// zero value is no command.
type Command struct {
	Run   string        `json:"run" bound:"command"`  // turns it on; exit status 0 is success
	Undo  string        `json:"undo" bound:"command"` // turns it off again, also where Run failed half way
	Limit time.Duration `json:"limit_ns" bound:"5m"`  // that each may take; then it is ended
}

// MaxCommandTime is the longest Limit: whoever waits for an undo waits for it too.
const MaxCommandTime = 5 * time.Minute

// IsCommand reports whether a is a command and no knob.
func (a Assignment) IsCommand() bool { return a.Command != Command{} }

// Setting is a named set of assignments. A setting without assignments is the
// hosts and the flow as they are.
type Setting struct {
	Name        string       `json:"name"`
	Assignments []Assignment `json:"assignments,omitempty"`
}

// ofNoHost is the value of a knob that belongs to no host; "" is none.
func (s Setting) ofNoHost(id KnobID) string {
	for _, a := range s.Assignments {
		if a.Knob == id && a.Host == "" {
			return a.Value
		}
	}
	return ""
}

// RunState says how a run stands.
type RunState string

// The states of a run.
const (
	RunPlanned     RunState = "planned"
	RunValid       RunState = "valid"
	RunInvalid     RunState = "invalid"     // Reason says why; its whole block does not count
	RunInterrupted RunState = "interrupted" // the user stopped it; its block starts anew on resuming
	// RunEqualLoad is a valid run of a candidate that was held to the goodput of its block's
	// baseline: it counts for the guards of latency and for nothing else (statistics.md 6.5).
	RunEqualLoad RunState = "equal load"
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
	Direction Direction `json:"direction,omitempty" bound:"|to|from"`
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

// HostFacts is what an agent says of its host at the start of a session.
type HostFacts struct {
	Host      Host                   `json:"host" bound:"end"`
	Name      string                 `json:"name" bound:"address"`
	OS        string                 `json:"os"`   // GOOS
	Arch      string                 `json:"arch"` // GOARCH
	Kernel    fact.Of[string]        `json:"kernel"`
	CPUs      int                    `json:"cpus" bound:"65536"`
	Version   string                 `json:"version"`                 // linerate's
	Address   string                 `json:"address" bound:"address"` // of the data path, as seen from this end
	Interface fact.Of[string]        `json:"interface"`               // that carries the data path
	MTU       fact.Of[int]           `json:"mtu"`                     // of Interface, bytes
	LinkRate  fact.Of[units.BitRate] `json:"link_rate"`               // of Interface
	// PathRate is the slowest link on the way from this host to its peer, where
	// somebody knows that for this direction: of a lab, its wire.
	PathRate   fact.Of[units.BitRate]     `json:"path_rate,omitzero"`
	Congestion fact.Of[string]            `json:"congestion"`
	Qdisc      fact.Of[string]            `json:"qdisc"`              // of Interface
	Knobs      map[KnobID]fact.Of[string] `json:"knobs" bound:"1024"` // current values
	Machine    *Machine                   `json:"machine,omitempty"`
	Route      *Route                     `json:"route,omitempty"`
	NICs       []NIC                      `json:"nics,omitempty" bound:"64"` // the one that leads to the peer first
	Path       []Hop                      `json:"path,omitempty" bound:"64"` // to the peer; the interface that packets leave by comes first
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
	KindMesh   Kind = "mesh"   // linerate mesh: all pairs of several hosts
	KindServed Kind = "served" // a test of another program's client with linerate serve
	// KindImported is what another program measured and wrote into files.
	KindImported Kind = "imported"
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
	Mesh     *Mesh                  `json:"mesh,omitempty"`
	Warnings []string               `json:"warnings,omitempty"`
	Tuning   Params                 `json:"tuning,omitempty"` // the course of a search, which package tune reads
	Note     string                 `json:"note,omitempty"`   // what a person wrote beside it
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

// Item is one line of a list of sessions. Its JSON form is described by
// docs/schema/list-v1.schema.json.
type Item struct {
	ID      string       `json:"id"`
	Kind    Kind         `json:"kind"`
	Title   string       `json:"title"`
	Near    string       `json:"near"`
	Far     string       `json:"far"`
	Created time.Time    `json:"created"`
	Ended   time.Time    `json:"ended,omitzero"` // zero while it runs, and where it is not known
	State   SessionState `json:"state"`
	Reason  string       `json:"reason,omitempty"`
	Note    string       `json:"note,omitempty"` // what a person wrote beside it
	Runs    int          `json:"runs"`           // valid ones
	MaxRuns int          `json:"max_runs"`       // that the plan allows; 0 where there is no plan
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

// DetailForgotten is the detail of a change that is undone without a look at its place:
// the restart of the machine forgot what was written there, and has not brought the place.
const DetailForgotten = "the restart of the machine forgot it, and what had it is not there now"

// Change is one knob of one host changed by linerate, and what became of it.
type Change struct {
	Run    int         `json:"run"` // number of the run that it was made for
	Host   Host        `json:"host" bound:"end"`
	Knob   KnobID      `json:"knob"`
	Native string      `json:"native" bound:"value"` // "net.ipv4.tcp_rmem"
	Old    string      `json:"old" bound:"value"`    // native text before
	New    string      `json:"new" bound:"value"`    // native text written
	State  ChangeState `json:"state" bound:"applied|undone|foreign|failed"`
	Detail string      `json:"detail,omitempty" bound:"text"`
}
