// Package filecopy measures file copies between two hosts, and each part of such a copy alone,
// so that a slow disk is not taken for a slow network.
//
// A run goes like this:
//
//  1. Prepare opens one connection. Everything else happens in Run, since creating a large file
//     takes longer than a session waits for Prepare.
//  2. The sender offers a size and creates its source, the receiver creates its sink. Both
//     first check that there is room, on the machine and in the session's budget (Env.Share).
//     Pages that are on disk are dropped from the page cache if the system can do that.
//  3. The receiver says go, and its clock starts: a copy lasts from then to the last byte
//     stored, with Sync to the last byte flushed.
//  4. Outside of that time the receiver flushes its sink, reads it back and compares its
//     SHA-256 with the source's. A difference fails the run at both ends.
//  5. The files that linerate created are removed at the end of the run, by Close, or, if this
//     process was killed, by Clean in the next one.
//
// In the modes that measure a part alone, one end does that work and reports as the direction's
// receiver, and the other one waits for it. Copies go one way at a time, over one connection.
//
// Reading and sending, and receiving and writing, overlap only as far as the kernel reads ahead
// and writes behind. With the page cache bypassed (Direct) it does neither, so that the two
// alternate.
package filecopy

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/measure/engine"
)

// Name is the engine's name in plans and on the wire.
const Name = files.Name

// Limits of a flow.
const (
	maxBlock     = 64 << 20
	maxBytes     = 1 << 50
	maxPath      = 4096
	defaultBlock = 1 << 20 // larger ones save few further system calls
)

// Options limit what the peer may do. The zero value is safe for anonymous clients.
type Options struct {
	// NamedPaths allows paths as sources and sinks. A client that may name paths can read every
	// file, and fill every folder, that this process can.
	NamedPaths bool
	// MaxBytes is the most that one run may move at this end; 0 is no limit.
	MaxBytes units.Bytes
}

// Engine is the copying engine. It is safe for concurrent use.
type Engine struct {
	stateDir string
	options  Options
	files    atomic.Uint64 // created so far; the seed of the next file's data
	stall    time.Duration // how long a copy may make no progress
}

// New returns the engine. It keeps a ledger of the files that it creates in stateDir, which
// belongs to linerate and may be shared by many processes. An end gives up if no byte moves for
// 30 s.
func New(stateDir string, o Options) *Engine {
	return &Engine{stateDir: stateDir, options: o, stall: 30 * time.Second}
}

// Name returns "filecopy".
func (*Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (*Engine) Kind() traffic.Kind { return bottleneck.Traffic() }

// Validate reports every fault of f at once, joined.
//
// Bytes ends a copy, so Duration and Omit must be 0. Bytes of 0 means the size of the source if
// that is a file, and otherwise DefaultBytes or what fits. There is one stream and one
// direction. Block is at most 64 MiB and, with Direct, a multiple of 4096.
func (*Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	check := faults.Unless
	c := withDefaults(engine.Params[files.Params](&faults, f))
	faults.Engine(f, Name)
	faults.Lead(f)
	check(f.Direction == model.To || f.Direction == model.From, "direction %q is neither to nor from: a file goes one way", f.Direction)
	check(f.Streams == 0 || f.Streams == 1, "%d streams: a file is copied over one connection", f.Streams)
	check(f.Duration == 0 && f.Omit == 0, "a copy is ended by its bytes: it has neither a duration nor a warm-up")
	check(f.Bytes >= 0 && f.Bytes <= maxBytes, "%d bytes: not between 1 and %d", f.Bytes, int64(maxBytes))
	faults.Interval(f)
	check(f.Block >= 0 && f.Block <= maxBlock, "block of %d bytes: not between 1 and %d", f.Block, maxBlock)
	check(!c.Direct || f.Block%alignment == 0, "block of %d bytes: past the page cache only multiples of %d can be moved", f.Block, alignment)
	faults.Window(f)
	switch c.Mode {
	case files.Copy, files.Network, files.Read, files.Write, files.Memory:
	default:
		check(false, "copy mode %q is none of copy, network, read, write, memory", c.Mode)
	}
	check(isPlain(c.Source) && isPlain(c.Sink), "a path holds control characters")
	check(len(c.Source) <= maxPath, "the path of the source has %d bytes, more than %d", len(c.Source), maxPath)
	check(len(c.Sink) <= maxPath, "the path of the sink has %d bytes, more than %d", len(c.Sink), maxPath)
	return faults.Err()
}

// isPlain reports whether a path can be shown and named unchanged.
func isPlain(path string) bool {
	return utf8.ValidString(path) && !strings.ContainsFunc(path, unicode.IsControl)
}

// settings returns this engine's parameters of a valid flow, with defaults filled in.
func settings(f model.Flow) files.Params {
	c, _ := traffic.Read[files.Params](f.Params)
	return withDefaults(c)
}

func withDefaults(c files.Params) files.Params {
	c.Mode = cmp.Or(c.Mode, files.Copy)
	return c
}

// Prepare opens the connection and returns the test. The defaults of f are an interval of 1 s
// and blocks of 1 MiB. The error wraps fs.ErrPermission if this end does not allow what f
// requests.
func (e *Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, fmt.Errorf("flow: %w", err)
	}
	limit := most(e.options.MaxBytes, env.MaxBytes)
	if limit > 0 && f.Bytes > limit {
		return nil, fmt.Errorf("copy %s where this end allows %s: %w", f.Bytes, limit, fs.ErrPermission)
	}
	f.Interval = cmp.Or(f.Interval, time.Second)
	f.Block = cmp.Or(f.Block, defaultBlock)
	o := engine.SocketOptions{Window: int(f.Window), MSS: f.MSS, NoDelay: !f.Nagle}
	if f.Direction.Sender() == env.Host {
		o.Congestion = f.Congestion
	}
	opened, err := env.Open(ctx, 1, o)
	if err != nil {
		return nil, fmt.Errorf("open connection %s: %w", f.Direction, err)
	}
	if len(opened.Conns) != 1 {
		return nil, fmt.Errorf("open connection %s: got %d", f.Direction, len(opened.Conns))
	}
	t := newTest(e, env.Host, f, opened)
	t.share, t.most = env.Share, limit
	return t, nil
}
