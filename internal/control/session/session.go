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
//     none comes. However it ends, the agent closes the test, undoes
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

// Kinds of refusal that a Service returns wrapped and a caller of Client may test for, besides
// errors.ErrUnsupported (this host does not have it) and fs.ErrPermission (more rights needed).
var (
	// ErrInvalid reports that a request or an answer exceeds the protocol's bounds.
	ErrInvalid = errors.New("invalid message")
	// ErrState reports that a call does not fit what happened before.
	ErrState = errors.New("not possible now")
	// ErrBusy reports that the agent has no room for another session.
	ErrBusy = fault.Cause(fault.Unreachable, "busy")
	// ErrRefused reports that the agent does not allow this to this controller.
	ErrRefused = fault.Cause(fault.Unreachable, "refused")
	// ErrExpired reports that the deadline of the applied changes passed, and they were undone.
	ErrExpired = errors.New("the deadline passed")
	// ErrLost reports that contact with the agent is lost: the connection ended, or no answer
	// came in time. Only Client returns it.
	ErrLost = fault.Cause(fault.Unreachable, "contact lost")
	// ErrVersion reports that the two ends speak different protocols.
	ErrVersion = fault.Cause(fault.Unreachable, "versions do not fit")
)

// Timeouts limit how long an end waits for the other. A zero field gets its default.
type Timeouts struct {
	// Hello is how long either end waits for the other's first message, including the start of
	// a remote agent. Default 10 s.
	Hello time.Duration
	// Call is how long the controller waits for the answer to any other call. Calls that change
	// or undo settings get knob.UndoTime in addition. Default 30 s.
	Call time.Duration
	// Ping is the silence after which an end sends a ping, and Pong how long it waits for the
	// answer. Default 10 s each.
	Ping, Pong time.Duration
	// Send is how long one event of a run may wait until the controller reads it. Default 20 s.
	Send time.Duration
	// Idle is how long a session without any call may last. 0 is forever: a user may take any
	// time to think.
	Idle time.Duration
}

// DefaultTimeouts returns the timeouts of the zero value.
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

// Hello is a controller's first message. Its fields are the same in all versions.
type Hello struct {
	Protocol uint32     `json:"protocol"`                     // Open fills it in
	Version  string     `json:"version"`                      // linerate's, of the controller
	Host     model.Host `json:"host"`                         // which end the agent is
	Secret   []byte     `json:"secret,omitempty" bound:"128"` // from the join link, nil if none is needed
}

// Welcome is an agent's answer to Hello. Its fields are the same in all versions.
type Welcome struct {
	Protocol   uint32 `json:"protocol"` // Serve fills in both
	Version    string `json:"version"`
	NoSettings string `json:"no_settings,omitempty" bound:"text"` // why the session cannot change settings, "" if it can
	// Charge takes memory from what the session may hold, until give is called; nil is
	// unlimited. It is called before a large request is read or decoded. Its error is sent to
	// the controller; it should wrap ErrBusy or ErrRefused.
	Charge func(n units.Bytes) (give func(), err error) `json:"-"`
}

// Preparation is what an agent needs to prepare its end of a run.
type Preparation struct {
	Run     uint64           `json:"run"` // number chosen by the controller, not 0
	Flow    model.Flow       `json:"flow"`
	Token   [TokenBytes]byte `json:"token"`                              // random, for this run only
	Connect string           `json:"connect,omitempty" bound:"endpoint"` // host:port for data connections; "" to accept them
	// Ports are the ports that an accepting agent may use, if it opens one for each run.
	Ports model.Ports `json:"ports,omitzero"`
	// Egress is where an agent sends its data from. A server obeys only its mark.
	Egress model.Egress `json:"egress,omitzero"`
	// Loopback makes it accept on the loopback address only, without UDP.
	Loopback bool `json:"loopback,omitempty"`
	// Within limits how long the connections may take to open, and how long a prepared run
	// waits for its start; up to MaxPrepare. 0 leaves it to the agent.
	Within time.Duration `json:"within_ns,omitempty" bound:"10m"`
}

// MaxPrepare bounds Preparation.Within.
const MaxPrepare = 10 * time.Minute

// Terms are the times of a change. Both are durations: only the watchdog that keeps the change
// turns the first into a time, by its own clock.
type Terms struct {
	Within time.Duration `json:"within_ns" bound:"1s..24h"`     // after which it is undone unless extended, from when the watchdog receives it; 1 s to 24 h
	Undo   time.Duration `json:"undo_ns,omitempty" bound:"15m"` // how long undoing all applied changes may take (knob.UndoTime); up to 15 min, 0 leaves it to the agent
}

// Service is what an agent does for its controller. Arguments are already checked against the
// bounds of the protocol. Calls may run concurrently; the context of each ends with the
// connection. Hello has succeeded once before any other call.
type Service interface {
	// Hello accepts or refuses the controller.
	Hello(ctx context.Context, h Hello) (Welcome, error)
	// Facts returns the host's facts. peer is the address of the other end's data path, or "".
	Facts(ctx context.Context, peer string) (model.HostFacts, error)
	// ReadKnobs returns the values of the knobs ids, each once.
	ReadKnobs(ctx context.Context, ids []model.KnobID) (map[model.KnobID]fact.Of[string], error)
	// Apply changes all knobs or none, until Undo or for as long as t says.
	Apply(ctx context.Context, as []model.Assignment, t Terms) ([]model.Change, error)
	// Verify fails unless every applied knob reads back as it was set.
	Verify(ctx context.Context) error
	// Extend moves the deadline of the applied changes to d from now.
	Extend(ctx context.Context, d time.Duration) error
	// Undo undoes Apply; without a change it does nothing.
	Undo(ctx context.Context) ([]model.Change, error)
	// Recovered returns the changes of an earlier session that this agent undid when it started.
	Recovered(ctx context.Context) ([]model.Change, error)
	// Prepare begins to open the connections of a run, and returns the TCP port
	// where they are accepted, 0 for none.
	Prepare(ctx context.Context, p Preparation) (port int, err error)
	// Run follows a prepared run and passes its events to send, which blocks while the
	// controller does not read.
	Run(ctx context.Context, run uint64, send func(Event) error) error
	// Start begins the traffic of a run that is ready.
	Start(ctx context.Context, run uint64) error
	// Stop asks a started run to end, and drops one that was only prepared.
	Stop(ctx context.Context, run uint64) error
	// Close undoes the session's changes to the host, and returns the outcome.
	Close(ctx context.Context) ([]model.Change, error)
	// Settings returns the service for changing settings by hand.
	Settings(ctx context.Context) (Settings, error)
}
