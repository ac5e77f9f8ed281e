//go:build !linux && !freebsd

package kmsg

import (
	"errors"
	"fmt"
	"runtime"
)

type reader struct{}

func open() (reader, error) {
	return reader{}, fmt.Errorf("read kernel log on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func (*reader) next() ([]byte, error) { return nil, nil }

func (*reader) close() error { return nil }
