//go:build !linux && !windows && !darwin

package radio

import (
	"errors"
	"fmt"
	"runtime"
)

type source struct{}

func openSource(string) (source, error) {
	return source{}, fmt.Errorf("wireless interfaces on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (source) read(bool) (State, error) { return State{}, errors.ErrUnsupported }
func (source) close() error             { return nil }
