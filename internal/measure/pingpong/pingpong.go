// Package pingpong measures how long messages of different sizes take: one run is one pass over
// the sizes of a sweep, in the order given.
//
// A run goes like this:
//
//  1. One end leads: the near end in directions To and Both, the far end in From. The other end
//     follows the leader's frames (docs/wire/pingpong.md).
//  2. For each size the leader determines how many rounds make a trial of about 20 ms, and then
//     runs seven trials. All of them are reported: taking only the fastest would hide what a
//     sweep looks for (statistics.md section 9).
//  3. A size without progress for 5 s is stalled. That is a result: the ends open a new
//     connection and go on with the next size. After three consecutive stalls, or ten in total,
//     the sweep ends with the results so far.
//  4. Messages in a host's kernel log are kept with the size at which they appeared: a driver's
//     "TX underrun" explains the drop beside it.
//
// The leader reports the points. The follower reports points only if its kernel logged
// something; they have neither trials nor rounds.
package pingpong

import (
	"context"
	"fmt"
	"time"

	"linerate/internal/core/model"
	curves "linerate/internal/core/sweep"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/plane"
)

// Name is the engine's name in plans and on the wire.
const Name = sizes.Name

// LogReader reads this host's kernel log.
type LogReader interface {
	// Lines returns what was logged since the last call, oldest first.
	Lines() ([]string, error)
	Close() error
}

// Engine measures message-size sweeps. It is safe for concurrent use; one engine per process
// serves all its tests.
type Engine struct {
	openLog func() (LogReader, error)
	open    opener
	bounds  bounds
	quiet   func(size int, bound time.Duration) time.Duration // timeout without progress in a batch of size
	share   time.Duration                                     // default time for one size
}

// bounds are the timeouts of a run.
type bounds struct {
	leader   time.Duration // without progress, at the leader
	follower time.Duration // at the follower: the leader notices first
	pause    time.Duration // the leader may pause that long to read a log and emit a sample
	batch    time.Duration // of a batch, at least
	connect  time.Duration // for a new connection
	grace    time.Duration // for a batch to end after Stop
}

// New returns the engine. openLog opens the kernel's log at its current end; it is nil if there
// is none. If it fails, the report has a warning and no log.
func New(openLog func() (LogReader, error)) *Engine {
	return &Engine{openLog: openLog, open: plane.New, share: defaultShare, bounds: bounds{
		leader: 5 * time.Second, follower: 15 * time.Second, pause: 5 * time.Second,
		batch: 30 * time.Second, connect: 15 * time.Second, grace: 500 * time.Millisecond,
	}, quiet: func(_ int, bound time.Duration) time.Duration { return bound }}
}

// Name returns "pingpong".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (*Engine) Kind() traffic.Kind { return curves.Traffic() }

// Limits of a flow.
const (
	// maxSizes is what the session can report; maxFresh is below the most connections that it
	// opens in a run.
	maxSizes = 4096
	maxFresh = 1900
)

// Validate reports every fault of f at once, joined.
//
// There are 1 to 4096 sizes (1900 with Fresh) from 1 byte to 1 GiB. Duration, if set, is shared
// by the sizes and bounds the whole pass. A sweep has one stream per direction, no warm-up of
// its own and no byte count.
func (*Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	check := faults.Unless
	faults.Engine(f, Name)
	faults.Direction(f)
	check(f.Streams >= 0 && f.Streams <= 1, "%d streams: a sweep has one", f.Streams)
	check(f.Duration >= 0, "duration %v is negative", f.Duration)
	check(f.Omit == 0, "omit %v: each size warms up by itself", f.Omit)
	check(f.Bytes == 0, "%d bytes: a sweep has sizes instead", f.Bytes)
	check(f.Block == 0, "block of %d bytes: a sweep has sizes instead", f.Block)
	faults.Window(f)
	faults.MSS(f)
	check(f.Lead == 0, "%v before the sweep: there is nothing to do then", f.Lead)
	s := engine.Params[sizes.Params](&faults, f)
	check(f.Points == len(s.Sizes), "%d points of %d sizes", f.Points, len(s.Sizes))
	_, known := modeOf(s.Mode)
	check(known, "mode %q is none of %s, %s, %s", s.Mode, sizes.PingPong, sizes.Both, sizes.Stream)
	check(len(s.Sizes) > 0 && len(s.Sizes) <= maxSizes, "%d sizes: not between 1 and %d", len(s.Sizes), maxSizes)
	check(!s.Fresh || len(s.Sizes) <= maxFresh, "%d sizes with a new connection for each: at most %d", len(s.Sizes), maxFresh)
	for _, n := range s.Sizes {
		if n < 1 || n > maxSize {
			check(false, "size of %d bytes: not between 1 and %d", n, maxSize)
			break
		}
	}
	return faults.Err()
}

// Prepare opens the first connection of f and returns the test.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	s, _ := traffic.Read[sizes.Params](f.Params) // f is valid
	m, _ := modeOf(s.Mode)
	t := &test{
		Life: engine.NewLife(), engine: e, env: env, flow: flow{f, s}, mode: m,
	}
	t.direction = f.Direction
	if f.Direction == model.Both {
		t.direction = model.To
	}
	t.leads = t.direction.Sender() == env.Host
	var largest units.Bytes
	for _, n := range s.Sizes {
		largest = max(largest, n)
	}
	t.out, t.in = plane.Payload(int(largest)), make([]byte, largest)
	if err := t.connect(ctx); err != nil {
		return nil, err
	}
	if env.Counts != nil {
		env.Counts(t.sent.Load)
	}
	return t, nil
}
