package agent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// Limits bound one session. A zero field leaves only the protocol's own bound.
type Limits struct {
	MaxTime    time.Duration // of one run, warm-up included
	MaxStreams int           // per direction
	MaxBlock   units.Bytes   // per write, which costs memory for every stream
	MaxBytes   units.Bytes   // of files generated for one copy
	MaxRate    units.BitRate // of paced UDP, per direction; unpaced UDP is refused
	MaxTCP     units.BitRate // of paced TCP, per direction; TCP that states no rate is refused
	// NoPaths refuses copies from or to paths that the controller names, so that a key that
	// may only measure cannot read or write files of the host.
	NoPaths bool
	// More says how a controller is allowed more; "" if it cannot be.
	More string
}

// maxIntervals is how many samples of a kind one run may have: a day at ten a second.
const maxIntervals = 1 << 20

// check returns an error if f, with demand d, exceeds the limits.
func (l Limits) check(f model.Flow, d traffic.Demand) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", session.ErrRefused, fmt.Sprintf(format, args...))
	}
	limited := func(format string, args ...any) error {
		if l.More != "" {
			format += "; " + strings.ReplaceAll(l.More, "%", "%%")
		}
		return refuse(format, args...)
	}
	whole := f.Length()
	switch {
	case l.MaxStreams > 0 && f.Streams > l.MaxStreams:
		return limited("%d streams, this agent allows %d", f.Streams, l.MaxStreams)
	case l.MaxTime > 0 && whole > l.MaxTime:
		return limited("a run of %v, this agent allows %v", whole, l.MaxTime)
	case intervals(f) > maxIntervals:
		return refuse("samples of %d intervals, at most %d are allowed", intervals(f), maxIntervals)
	case l.MaxBlock > 0 && f.Block > l.MaxBlock:
		return limited("%d bytes per write, this agent allows %d", f.Block, l.MaxBlock)
	}
	switch {
	case l.MaxBlock > 0 && d.Message > l.MaxBlock:
		return limited("a message of %d bytes, this agent allows %d", d.Message, l.MaxBlock)
	case l.MaxBlock > 0 && d.Answer > l.MaxBlock:
		return limited("answers of %d bytes, this agent allows %d", d.Answer, l.MaxBlock)
	case l.MaxRate > 0 && d.Datagrams && (d.Rate == 0 || d.Rate > l.MaxRate):
		return limited("UDP at more than %v, which this agent allows", l.MaxRate)
	case l.MaxTCP > 0 && !d.Datagrams && (d.Rate == 0 || d.Rate > l.MaxTCP):
		return limited("TCP at more than %v, which this agent allows", l.MaxTCP)
	case l.NoPaths && d.Paths:
		return refuse("this agent copies between memory and a disk file of its own, not from or to a path")
	case l.MaxBytes > 0 && d.Stored && f.Bytes > l.MaxBytes:
		return limited("a copy of %d bytes, this agent allows %d", f.Bytes, l.MaxBytes)
	}
	return nil
}

// soon is how long a controller may be expected to wait for budget to become free.
const soon = 2 * time.Minute

// OverBudget makes a budget's refusal an error of the session: ErrBusy if the same request may
// be granted soon, else ErrRefused.
func OverBudget(err error) error {
	if r, ok := errors.AsType[*budget.Refusal](err); ok && r.Later() && r.Wait < soon {
		return fmt.Errorf("%w: %w", session.ErrBusy, err)
	}
	return fmt.Errorf("%w: %w", session.ErrRefused, err)
}
