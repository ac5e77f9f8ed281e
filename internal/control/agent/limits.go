package agent

import (
	"errors"
	"fmt"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/budget"
)

// Limits bound what one session may do. The zero value of a field is the
// protocol's own bound.
type Limits struct {
	MaxTime    time.Duration // of one run, warm-up included
	MaxStreams int           // per direction
	MaxBlock   units.Bytes   // per write, which costs memory for every stream
	MaxBytes   units.Bytes   // of files made for one copy
	MaxRate    units.BitRate // of paced UDP, per direction; unpaced UDP is refused
	// NoPaths refuses copies from or to paths that the controller names, so that
	// who may measure can neither read nor write files of the host.
	NoPaths bool
}

// maxIntervals is how many samples of a kind one run may have: those of a day at
// ten a second.
const maxIntervals = 1 << 20

// check says why f is more than what is allowed.
func (l Limits) check(f model.Flow) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", session.ErrRefused, fmt.Sprintf(format, args...))
	}
	whole := f.Length()
	switch {
	case l.MaxStreams > 0 && f.Streams > l.MaxStreams:
		return refuse("%d streams, this agent allows %d", f.Streams, l.MaxStreams)
	case l.MaxTime > 0 && whole > l.MaxTime:
		return refuse("a run of %v, this agent allows %v", whole, l.MaxTime)
	case intervals(f) > maxIntervals:
		return refuse("samples of %d intervals, at most %d are allowed", intervals(f), maxIntervals)
	case l.MaxBlock > 0 && f.Block > l.MaxBlock:
		return refuse("%d bytes per write, this agent allows %d", f.Block, l.MaxBlock)
	}
	if s := f.Sweep; s != nil && l.MaxBlock > 0 {
		for _, n := range s.Sizes {
			if n > l.MaxBlock {
				return refuse("a message of %d bytes, this agent allows %d", n, l.MaxBlock)
			}
		}
	}
	if r := f.Requests; r != nil && l.MaxBlock > 0 && r.Reply > l.MaxBlock {
		return refuse("answers of %d bytes, this agent allows %d", r.Reply, l.MaxBlock)
	}
	if l.MaxRate > 0 && f.Datagrams() {
		var rate units.BitRate
		if f.UDP != nil {
			rate = f.UDP.Rate
		}
		if rate == 0 || rate > l.MaxRate {
			return refuse("UDP at more than %v, which this agent allows", l.MaxRate)
		}
	}
	if v := f.Copy; v != nil {
		if l.NoPaths && (isPath(v.Source) || isPath(v.Sink)) {
			return refuse("this agent copies between memory and a disk file of its own, not from or to a path")
		}
		if l.MaxBytes > 0 && f.Bytes > l.MaxBytes {
			return refuse("a copy of %d bytes, this agent allows %d", f.Bytes, l.MaxBytes)
		}
	}
	return nil
}

// OverBudget makes a refusal of a budget one of the session.
func OverBudget(err error) error {
	if r, ok := errors.AsType[*budget.Refusal](err); ok && r.Later() {
		return fmt.Errorf("%w: %w", session.ErrBusy, err)
	}
	return fmt.Errorf("%w: %w", session.ErrRefused, err)
}

// isPath reports whether the end of a copy is anything but a word of linerate's.
func isPath(s string) bool { return s != "" && s != model.CopyInMemory && s != model.CopyOnDisk }
