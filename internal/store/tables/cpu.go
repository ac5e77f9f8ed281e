package tables

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Limited runs f, and cancels its context once this process has used that much CPU time
// meanwhile; 0 is no limit. The error then wraps ErrEndless. It measures CPU time, not wall
// time: on a busy machine a statement on a good file may take minutes.
func Limited(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	if limit == 0 {
		return f(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := processCPU()
	var check func()
	check = func() {
		switch left := limit - (processCPU() - began); {
		case ctx.Err() != nil:
		case left > 0:
			time.AfterFunc(max(left, limit/10), check)
		default:
			cancel(ErrEndless)
		}
	}
	defer time.AfterFunc(limit, check).Stop()
	err := f(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrEndless) {
		return fmt.Errorf("%w: stopped after %s of CPU time", ErrEndless, limit)
	}
	return err
}
