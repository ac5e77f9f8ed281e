//go:build !linux

package observe

import (
	"errors"
	"fmt"
	"runtime"
)

type ring struct{}

func open(options) (*ring, error) {
	return nil, fmt.Errorf("packets cannot be observed on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (*ring) collect(<-chan struct{}) ([]int64, int, error) { return nil, 0, errors.ErrUnsupported }

func (*ring) close() {}
