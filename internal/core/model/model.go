// Package model holds the values that flow through linerate: plan, run,
// sample, report of an end, finding, verdict, session. They have no behaviour
// beyond small look-ups and know no clock, file, socket or database.
package model

import (
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Direction is the direction in which payload flows between the ends.
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

// KnobID is the neutral name of a setting, for example "tcp.recv_buffer_max" (of a host) or
// "window" (of the test flow).
type KnobID string

// Assignment gives one knob one value. Host is empty for a knob of the flow.
type Assignment struct {
	Host  Host   `json:"host,omitempty"`
	Knob  KnobID `json:"knob"`
	Value string `json:"value" bound:"value"` // canonical text: bytes as a decimal count, switches as 0 or 1; for a command On or Off
	// Command is the action of a factor that is not a knob; its Knob begins with CommandPrefix.
	Command Command `json:"command,omitzero"`
}

// CommandPrefix begins the KnobID of a command: "cmd:shaper".
const CommandPrefix = "cmd:"

// HookKnob is the KnobID of the commands around every run, the baseline's too: they are not a
// factor. No factor can have this name.
const HookKnob = CommandPrefix + "before+after"

// The levels of a command: run, and undone later; or not run.
const (
	On  = "on"
	Off = "off"
)

// Command is a user's command to turn on and off something that linerate has no knob for: a
// shaper, a driver, a VPN. Both texts are for the host's shell. The zero value is no command.
type Command struct {
	Run   string        `json:"run" bound:"command"`  // turns it on; exit status 0 is success
	Undo  string        `json:"undo" bound:"command"` // turns it off again, also if Run failed half way
	Limit time.Duration `json:"limit_ns" bound:"5m"`  // timeout of each; then it is killed
}

// MaxCommandTime is the longest Limit, because everything that waits for an undo waits for it
// too.
const MaxCommandTime = 5 * time.Minute

// IsCommand reports whether a is a command, not a knob.
func (a Assignment) IsCommand() bool { return a.Command != Command{} }

// Setting is a named set of assignments. A setting without assignments leaves the hosts and the
// flow unchanged.
type Setting struct {
	Name        string       `json:"name"`
	Assignments []Assignment `json:"assignments,omitempty"`
}

// ofNoHost returns the value of a knob without a host, "" if it is not assigned.
func (s Setting) ofNoHost(id KnobID) string {
	for _, a := range s.Assignments {
		if a.Knob == id && a.Host == "" {
			return a.Value
		}
	}
	return ""
}

// RunState is the state of a run.
type RunState string

// The states of a run.
const (
	RunPlanned     RunState = "planned"
	RunValid       RunState = "valid"
	RunInvalid     RunState = "invalid"     // Reason says why; its whole block does not count
	RunInterrupted RunState = "interrupted" // the user stopped it; its block starts anew on resuming
	// RunEqualLoad is a valid run of a candidate limited to the goodput of its block's
	// baseline: it counts only for the guards of latency (statistics.md 6.5).
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
	LostContact bool        `json:"lost_contact,omitempty"` // the run is invalid because the controller lost contact to a host
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

// Windowed reports whether the receive window limited direction d for most of the time that its
// sender had data.
func (r *Run) Windowed(d Direction) bool {
	t := r.Sent(d)
	if t == nil {
		return false
	}
	share, ok := t.Share(t.RwndLimited)
	return ok && share >= 0.5
}

// Sent returns the sending kernel's account of direction d, nil if there is none.
func (r *Run) Sent(d Direction) *TCPSummary {
	for _, end := range r.Ends {
		for _, f := range end.Flows {
			if f.Direction == d && f.TCP != nil {
				return f.TCP
			}
		}
	}
	return nil
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

// HostFacts is what an agent reports about its host at the start of a session.
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
	// PathRate is the slowest link on the path from this host to its peer, if known for this
	// direction: in a lab, its wire.
	PathRate   fact.Of[units.BitRate]     `json:"path_rate,omitzero"`
	Congestion fact.Of[string]            `json:"congestion"`
	Qdisc      fact.Of[string]            `json:"qdisc"`              // of Interface
	Knobs      map[KnobID]fact.Of[string] `json:"knobs" bound:"1024"` // current values
	Machine    *Machine                   `json:"machine,omitempty"`
	Route      *Route                     `json:"route,omitempty"`
	NICs       []NIC                      `json:"nics,omitempty" bound:"64"` // the one that leads to the peer first
	Path       []Hop                      `json:"path,omitempty" bound:"64"` // to the peer; the interface that packets leave by comes first
}

// SessionState is the state of a session.
type SessionState string

// The states of a session.
const (
	SessionRunning     SessionState = "running"
	SessionDone        SessionState = "done"        // decided, or planned blocks or budget spent
	SessionInterrupted SessionState = "interrupted" // may be resumed
	SessionStopped     SessionState = "stopped"     // its process ended without recording it; may be resumed
	SessionFailed      SessionState = "failed"
)

// Kind is the kind of a session.
type Kind string

// The kinds.
const (
	KindTest   Kind = "test"   // linerate test
	KindRun    Kind = "run"    // an experiment
	KindSweep  Kind = "sweep"  // linerate sweep: message sizes
	KindCopy   Kind = "copy"   // linerate copy: files
	KindCheck  Kind = "check"  // linerate check: what is wrong, and what limits
	KindTune   Kind = "tune"   // linerate tune: a search for better settings
	KindMesh   Kind = "mesh"   // linerate mesh: all pairs of several hosts
	KindWatch  Kind = "watch"  // linerate watch: one look at a path of many
	KindServed Kind = "served" // a test of another program's client with linerate serve
	// KindImported is another program's measurement, read from its files.
	KindImported Kind = "imported"
)

// Session is everything about one experiment except its samples.
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
	Noise    []Noise                `json:"noise,omitempty"` // from comparing the baseline with itself
	Check    *Check                 `json:"check,omitempty"`
	Mesh     *Mesh                  `json:"mesh,omitempty"`
	Warnings []string               `json:"warnings,omitempty"`
	Tuning   Params                 `json:"tuning,omitempty"` // the course of a search, in the format of package tune
	Note     string                 `json:"note,omitempty"`   // the user's remark
}

// Facts returns the facts that host h reported. If it reported none, Facts returns false, with
// all facts unknown.
func (s *Session) Facts(h Host) (HostFacts, bool) {
	for _, f := range s.Hosts {
		if f.Host == h {
			return f, true
		}
	}
	return HostFacts{Host: h}, false
}

// Item is one line of a list of sessions. docs/schema/list-v1.schema.json describes its JSON
// form.
type Item struct {
	ID      string       `json:"id"`
	Kind    Kind         `json:"kind"`
	Title   string       `json:"title"`
	Near    string       `json:"near"`
	Far     string       `json:"far"`
	Created time.Time    `json:"created"`
	Ended   time.Time    `json:"ended,omitzero"` // zero while it runs, and if unknown
	State   SessionState `json:"state"`
	Reason  string       `json:"reason,omitempty"`
	Note    string       `json:"note,omitempty"` // the user's remark
	Runs    int          `json:"runs"`           // valid ones
	MaxRuns int          `json:"max_runs"`       // the plan's number; 0 without a plan
}

// ChangeState is the state of a change to a host.
type ChangeState string

// The states of a change.
const (
	ChangeApplied ChangeState = "applied"
	ChangeUndone  ChangeState = "undone"
	ChangeForeign ChangeState = "foreign" // another program changed the knob meanwhile: left alone
	ChangeFailed  ChangeState = "failed"  // Detail says why
)

// DetailForgotten is the detail of a change that counts as undone without access to the knob: a
// reboot discarded it, and the device that had the knob is gone.
const DetailForgotten = "the restart of the machine forgot it, and what had it is not there now"

// Change is a change by linerate to one knob of one host, with its state.
type Change struct {
	Run    int         `json:"run"` // number of the run that needed it
	Host   Host        `json:"host" bound:"end"`
	Knob   KnobID      `json:"knob"`
	Native string      `json:"native" bound:"value"` // "net.ipv4.tcp_rmem"
	Old    string      `json:"old" bound:"value"`    // native text before
	New    string      `json:"new" bound:"value"`    // native text written
	State  ChangeState `json:"state" bound:"applied|undone|foreign|failed"`
	Detail string      `json:"detail,omitempty" bound:"text"`
}
