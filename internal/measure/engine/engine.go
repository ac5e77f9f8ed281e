// Package engine is the contract between the two ends of a session and the code that makes
// traffic and samples.
//
// A run goes like this, on both ends at once:
//
//  1. Prepare validates the flow and opens its connections through Env.Open.
//  2. The session waits until both ends are ready (the start barrier).
//  3. Test.Run makes traffic. The receiver of a direction measures: its window opens Omit after
//     its start and lasts Duration, by its own monotonic clock. A sender sends until Stop, or
//     until Bytes are sent.
//  4. When the receiving end has returned from Run, the session calls Stop on the sending end,
//     which then returns too. With direction Both, each end keeps sending until it is stopped,
//     and closes Measured when its receiving half is complete, so that neither waits for the
//     other.
package engine

import (
	"context"
	"net"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// Engine makes one kind of traffic. It is safe for concurrent use.
type Engine interface {
	// Name returns the engine's name in plans and on the wire, for example "tcpbulk".
	Name() string
	// Kind returns the engine's metadata, with its own parameters. Its name is Name.
	Kind() traffic.Kind
	// Validate reports every fault of f at once, joined.
	Validate(f model.Flow) error
	// Prepare opens the flow's connections and returns the test, ready to start.
	Prepare(ctx context.Context, env Env, f model.Flow) (Test, error)
}

// Test is one end of one prepared run.
type Test interface {
	// Run makes and measures traffic until it is complete, stopped or ctx ends. It calls emit
	// with the samples of each interval as it ends, from one goroutine; emit must not block for
	// long. A run that ended early returns partial results with a warning in the report.
	Run(ctx context.Context, emit func([]model.Sample)) (model.EndReport, error)
	// Measured returns a channel that is closed when this end's measured windows are complete:
	// at once after Run began for an end that only sends.
	Measured() <-chan struct{}
	// Stop makes Run return soon, with a report. It may be called at any time and more than
	// once.
	Stop()
	// Close frees the connections. It is idempotent and also makes Run return.
	Close() error
}

// Env is what the session gives an engine.
type Env struct {
	// Host says which end this is.
	Host model.Host
	// Open returns n connected TCP connections with the peer, in the same order at both ends.
	// The options are applied before the handshake if the transport allows it; otherwise
	// Applied has a warning.
	Open func(ctx context.Context, n int, o SocketOptions) (Opened, error)
	// OpenUDP returns n connected UDP sockets with the peer, in the same order at both ends;
	// nil if the transport has none. Datagrams of the opening may still arrive: an engine
	// ignores those that are not its own.
	OpenUDP func(ctx context.Context, n int) ([]*net.UDPConn, error)
	// Counts, if not nil, takes a function that returns the bytes this end has written over TCP
	// so far. An engine whose samples do not have them (model.Sent) calls Counts once, in
	// Prepare. The session calls sent from another goroutine, also after Close.
	Counts func(sent func() int64)
	// Egress is for sockets that an engine opens by itself; those of Open and OpenUDP already
	// use it.
	Egress model.Egress
	// LinkRate is the rate of the interface that carries the flow, if known. Engines choose
	// their block size by it.
	LinkRate fact.Of[units.BitRate]
	// Share bounds the memory and disk that engines use at the peer's request; nil is no bound.
	Share *budget.Share
	// MaxBytes is the most that one copy may move at this end; 0 is no limit.
	MaxBytes units.Bytes
}

// Opened are connections from Env.Open, owned by the engine.
type Opened struct {
	Conns    []*net.TCPConn
	Warnings []string
}

// SocketOptions are the options of a flow's TCP sockets. The zero value leaves everything to
// the system; in particular SO_RCVBUF and SO_SNDBUF are set only if Window is, because setting
// them turns autotuning off.
type SocketOptions struct {
	Window     int    // bytes for SO_SNDBUF and SO_RCVBUF
	MSS        int    // bytes, TCP_MAXSEG
	NoDelay    bool   // TCP_NODELAY
	Congestion string // TCP_CONGESTION
	MPTCP      bool   // Multipath TCP (RFC 8684); if unavailable, TCP and a warning

	Egress model.Egress // source address or interface of the socket
}
