// Package session is the protocol between a controller and the agent of one
// host, over any one connection.
//
// The session begins with a greeting; see greeting.go. Connect-go calls over HTTP/2 in
// cleartext with prior knowledge (RFC 9113 section 3.3) follow, one HTTP/2 connection on
// one net.Conn, so that a pipe, a child's standard input and output and TLS all carry the
// same bytes. A call is POST /linerate.session/NAME, and its messages are JSON: the values
// of package model and of this package themselves, with their tags.
//
//  1. The agent's end calls Serve with a Service; it returns when the
//     connection ends and every call has returned.
//  2. The controller's end calls Open, which compares versions in both
//     directions, and then the methods of Client.
//  3. Both ends ask a silent peer for a sign of life, and end the session when
//     none comes. When it ends, for whatever reason, the agent closes the test, undoes
//     the knobs and forgets the session.
//
// Rules for all messages:
//
//   - Durations are in nanoseconds and relative, because the clocks of two hosts differ.
//   - Texts are UTF-8 without control characters other than tab and newline.
//   - A request has at most 256 KiB, a response or one event 1 MiB.
//   - Every field has a bound; see rule. Both ends refuse what breaks one. An unknown
//     field, and one that occurs twice, is refused too.
//
// testdata/messages holds a sample of every message.
package session

import (
	"context"
	"errors"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Protocol is the version of the protocol that this linerate speaks. It grows
// with every release that adds a call or a field that the other end has to know.
const Protocol = 1

// TokenBytes is the length of a run's token.
const TokenBytes = 32

// Kinds of refusal that a Service returns wrapped and a caller of Client may
// test for, besides errors.ErrUnsupported (this host has no such thing) and
// fs.ErrPermission (more rights needed).
var (
	// ErrInvalid says that a request or an answer breaks the protocol's bounds.
	ErrInvalid = errors.New("invalid message")
	// ErrState says that a call does not fit what happened before.
	ErrState = errors.New("not possible now")
	// ErrBusy says that the agent has no room for another session.
	ErrBusy = fault.Cause(fault.Unreachable, "busy")
	// ErrRefused says that the agent does not allow this to this controller.
	ErrRefused = fault.Cause(fault.Unreachable, "refused")
	// ErrExpired says that the time of what was applied is over, and it was undone.
	ErrExpired = errors.New("the deadline passed")
	// ErrLost says that contact with the agent is lost: the connection ended,
	// or no answer came in time. Only Client returns it.
	ErrLost = fault.Cause(fault.Unreachable, "contact lost")
	// ErrVersion says that the two ends speak different protocols.
	ErrVersion = fault.Cause(fault.Unreachable, "versions do not fit")
)

// Timeouts bound how long an end waits for the other. The zero value of a
// field is its default.
type Timeouts struct {
	// Hello is how long either end waits for the other's first words, including
	// the start of a remote agent. Default 10 s.
	Hello time.Duration
	// Call is how long the controller waits for the answer to any other call but
	// those that change or undo settings, which get knob.UndoTime in addition.
	// Default 30 s.
	Call time.Duration
	// Ping is the silence after which a sign of life is asked for, and Pong how
	// long it may take. Default 10 s each.
	Ping, Pong time.Duration
	// Send is how long one event of a run may wait for the controller to read
	// it. Default 20 s.
	Send time.Duration
	// Idle ends a session without any call for so long. 0 is never: a user may
	// think for as long as he likes.
	Idle time.Duration
}

// DefaultTimeouts are those of the zero value.
func DefaultTimeouts() Timeouts { return Timeouts{}.orDefaults() }

// orDefaults returns t with every zero field but Idle set to its default.
func (t Timeouts) orDefaults() Timeouts {
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&t.Hello, 10*time.Second)
	or(&t.Call, 30*time.Second)
	or(&t.Ping, 10*time.Second)
	or(&t.Pong, 10*time.Second)
	or(&t.Send, 20*time.Second)
	return t
}

// Hello is what a controller says first. Its fields are the same in all versions.
type Hello struct {
	Protocol uint32     `json:"protocol"`                     // Open fills it in
	Version  string     `json:"version"`                      // linerate's, of the controller
	Host     model.Host `json:"host"`                         // the end that the agent is
	Secret   []byte     `json:"secret,omitempty" bound:"128"` // from the join link, nil where none is needed
}

// Welcome is an agent's answer to Hello. Its fields are the same in all versions.
type Welcome struct {
	Protocol   uint32 `json:"protocol"` // Serve fills in both
	Version    string `json:"version"`
	NoSettings string `json:"no_settings,omitempty" bound:"text"` // why the session can change no settings, "" where it can
	// Charge takes memory from what the session may hold, until give is called; nil is
	// no bound. It is called before a large request is read or decoded. Its error is
	// what the controller reads; it should wrap ErrBusy or ErrRefused.
	Charge func(n units.Bytes) (give func(), err error) `json:"-"`
}

// Preparation is what an agent needs to prepare its end of a run.
type Preparation struct {
	Run     uint64           `json:"run"` // number chosen by the controller, not 0
	Flow    model.Flow       `json:"flow"`
	Token   [TokenBytes]byte `json:"token"`                              // random, of this run only
	Connect string           `json:"connect,omitempty" bound:"endpoint"` // host:port for data connections; "" to accept them
	// Ports are those that an accepting agent may take, where it has one for each run.
	Ports model.Ports `json:"ports,omitzero"`
	// Egress is where an agent's data leave from. One that serves obeys the mark alone.
	Egress model.Egress `json:"egress,omitzero"`
	// Loopback has it accept at the loopback address only, and no UDP.
	Loopback bool `json:"loopback,omitempty"`
	// Within is how long the connections may take to open, and a run that is ready to be
	// started; up to MaxPrepare, 0: as the agent thinks.
	Within time.Duration `json:"within_ns,omitempty" bound:"10m"`
}

// MaxPrepare bounds Preparation.Within.
const MaxPrepare = 10 * time.Minute

// Terms are the times of a change. Both are lengths: the watchdog that keeps the
// change is the only one who turns the first into a time of a clock, its own.
type Terms struct {
	Within time.Duration `json:"within_ns" bound:"1s..24h"`     // after which it goes back unless extended, from when the watchdog hears it; 1 s to 24 h
	Undo   time.Duration `json:"undo_ns,omitempty" bound:"15m"` // how long taking back all that is applied may take (knob.UndoTime); up to 15 min, 0: as the agent thinks
}

// Service is what an agent does for its controller. Arguments are already
// checked against the bounds of the protocol. Calls may come at the same time;
// the context of each ends with the connection. Hello was called once, with
// success, before anything else is.
type Service interface {
	// Hello accepts or refuses the controller.
	Hello(ctx context.Context, h Hello) (Welcome, error)
	// Facts reads the host. peer is the address of the other end's data path, or "".
	Facts(ctx context.Context, peer string) (model.HostFacts, error)
	// ReadKnobs reads the knobs named ids, each once.
	ReadKnobs(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error)
	// Apply changes knobs, all or none, until Undo or as long as t says.
	Apply(ctx context.Context, as []model.Assignment, t Terms) ([]model.Change, error)
	// Verify fails unless every applied knob reads back as it was set.
	Verify(ctx context.Context) error
	// Extend moves the end of what Apply did to d from now.
	Extend(ctx context.Context, d time.Duration) error
	// Undo puts back what Apply changed; without a change it does nothing.
	Undo(ctx context.Context) ([]model.Change, error)
	// Recovered tells what this agent's start put back of an earlier session.
	Recovered(ctx context.Context) ([]model.Change, error)
	// Prepare begins to open the connections of a run, and returns the TCP port
	// where they are accepted, 0 for none.
	Prepare(ctx context.Context, p Preparation) (port int, err error)
	// Run follows a prepared run and tells its events through send, which
	// blocks while the controller does not read.
	Run(ctx context.Context, run uint64, send func(Event) error) error
	// Start begins the traffic of a run that is ready.
	Start(ctx context.Context, run uint64) error
	// Stop asks a started run to end, and drops one that was only prepared.
	Stop(ctx context.Context, run uint64) error
	// Close ends what the session did to the host, and says what became of it.
	Close(ctx context.Context) ([]model.Change, error)
	// Settings returns what changes settings by hand.
	Settings(ctx context.Context) (Settings, error)
}
