//go:build !linux && !freebsd && !darwin && !windows

package filecopy

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

const (
	directFlag   = 0
	noMemoryDisk = "not known on this system"
)

func unsupported() error {
	return fmt.Errorf("file copies on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func memoryFolders() []string               { return nil }
func temporaryFolders() []string            { return nil }
func readVolume(string) (Volume, error)     { return Volume{}, unsupported() }
func identify(*os.File) (identity, error)   { return identity{}, unsupported() }
func dropCache(*os.File) (cached, error)    { return cached{}, unsupported() }
func past(*os.File) error                   { return unsupported() }
func lock(*os.File, bool) (bool, error)     { return false, unsupported() }
func syncFolder(string) error               { return nil }
func availableMemory() fact.Of[units.Bytes] { return fact.Unknown[units.Bytes](unsupported().Error()) }
func allocate(n int64) ([]byte, func() error, error) {
	return make([]byte, n), func() error { return nil }, nil
}

// writable returns nil: creating the file shows whether it is.
func writable(string) error { return nil }
