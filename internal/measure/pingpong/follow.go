package pingpong

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/measure/plane"
)

// follow does what the leader requests until it sends end.
func (r *course) follow(ctx context.Context) error {
	// Each size has one connection at most; a leader needs no more.
	for range 2*len(r.flow.Sweep.Sizes) + stallsInAll {
		last, err := r.serve()
		r.keepLog(last)
		switch {
		case err == nil:
			return nil
		case r.isStopped():
			r.warn("stopped before the leading end was done")
			return nil
		case ctx.Err() != nil:
			r.warn("ended before the leading end was done: %v", context.Cause(ctx))
			return nil
		case errors.Is(err, errFrame):
			_ = r.disconnect()
			return fmt.Errorf("follow the leading end: %w", err)
		}
		how := (*plane.Link).Abort
		if errors.Is(err, errRenew) {
			how = (*plane.Link).Close
		}
		if err := r.reconnect(ctx, how); err != nil {
			switch {
			case r.isStopped():
				r.warn("stopped before the leading end was done")
			case ctx.Err() != nil:
				r.warn("ended before the leading end was done: %v", context.Cause(ctx))
			default:
				r.warn("the leading end went away: %v", err)
			}
			return nil
		}
	}
	return errors.New("follow the leading end: it opened too many connections")
}

// errRenew reports that the leader wants a new connection.
var errRenew = errors.New("renew")

// serve answers on one connection. It returns the last size, and nil at the leader's end,
// errRenew or an error.
func (r *course) serve() (last int, err error) {
	p := r.peer()
	for {
		pause := r.engine.bounds.follower + r.engine.bounds.pause
		p.link.Limit(pause, pause)
		f, err := p.receive()
		if err != nil {
			return last, err
		}
		switch f.kind {
		case batch:
			if err := r.allowed(f); err != nil {
				return last, err
			}
			if f.size != last {
				r.keepLog(last)
				last = f.size
			}
			if err := p.follow(f, r.engine.quiet(f.size, r.engine.bounds.follower), maxBatch); err != nil {
				return last, err
			}
		case renew:
			if err := p.send(f); err != nil {
				return last, err
			}
			return last, errRenew
		case end:
			return last, p.send(f)
		case ready, done:
			return last, fmt.Errorf("%w: %s where batch, renew or end is due", errFrame, f.kind)
		default:
			return last, fmt.Errorf("%w: %s", errFrame, f.kind)
		}
	}
}

// allowed returns an error for a batch that the flow does not have.
func (r *course) allowed(f frame) error {
	if f.mode != r.mode || !slices.Contains(r.flow.Sweep.Sizes, units.Bytes(f.size)) {
		return fmt.Errorf("%w: a batch of mode %d and %d bytes, which the flow does not have", errFrame, f.mode, f.size)
	}
	return nil
}

// keepLog adds what this end's kernel logged while size was measured.
func (r *course) keepLog(size int) {
	if lines := r.logged(); len(lines) > 0 && size > 0 {
		r.points = append(r.points, model.Point{Size: units.Bytes(size), Log: lines})
	}
}
