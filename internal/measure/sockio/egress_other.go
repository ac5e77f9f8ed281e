//go:build !linux && !freebsd && !darwin && !windows

package sockio

import (
	"errors"
	"fmt"
	"runtime"
)

func unsupported() error { return fmt.Errorf("not on %s: %w", runtime.GOOS, errors.ErrUnsupported) }

func setTOS(uintptr, int) error { return unsupported() }

func reuseAddress(uintptr) error { return unsupported() }

func bindDevice(uintptr, string) error { return unsupported() }
