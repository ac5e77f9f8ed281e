//go:build !linux

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

func tellMarks(uintptr, bool) error {
	return fmt.Errorf("read ECN marks on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func setMark(uintptr, bool, byte) error {
	return fmt.Errorf("set marks of ECN on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func markMessage(byte, bool) []byte { return nil }

func pathMTU(uintptr, bool) int { return 0 }

func mark([]byte) (byte, bool) { return 0, false }
