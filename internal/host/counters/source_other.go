//go:build !linux && !freebsd && !darwin && !windows

package counters

import (
	"errors"
	"fmt"
	"runtime"
)

type source struct{}

func openSource(string) (*source, error) {
	return nil, fmt.Errorf("counters of %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (s *source) missing() []string { return nil }

func (s *source) close() error { return nil }

func (s *source) read(*Snapshot, bool) error { return errors.ErrUnsupported }
