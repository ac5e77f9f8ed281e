//go:build !linux

package machines

import (
	"context"
	"errors"

	"linerate/internal/core/units"
)

// Two needs Linux.
type Two struct{}

// Missing says that.
func Missing() string { return "machines are started on Linux" }

// Start says that too.
func Start(context.Context, string, []Card) (*Two, error) { return nil, errors.New(Missing()) }

// Close does nothing.
func (*Two) Close() {}

// Set does nothing.
func (*Two) Set(int, units.BitRate, [2]bool) {}

// Shell says that machines need Linux.
func (*Two) Shell(context.Context, int, int, string) error { return errors.New(Missing()) }

// Look says that machines need Linux.
func (*Two) Look(context.Context, Look) ([]byte, error) { return nil, errors.New(Missing()) }
