//go:build !linux

package machines

import (
	"context"
	"errors"

	"linerate/internal/core/units"
)

// Two requires Linux.
type Two struct{}

// Missing reports that machines require Linux.
func Missing() string { return "machines are started on Linux" }

// Start fails: machines require Linux.
func Start(context.Context, string, []Card) (*Two, error) { return nil, errors.New(Missing()) }

// Close does nothing.
func (*Two) Close() {}

// Set does nothing.
func (*Two) Set(int, units.BitRate, [2]bool) {}

// Shell fails: machines require Linux.
func (*Two) Shell(context.Context, int, int, string) error { return errors.New(Missing()) }

// Look fails: machines require Linux.
func (*Two) Look(context.Context, Look) ([]byte, error) { return nil, errors.New(Missing()) }
