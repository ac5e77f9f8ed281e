//go:build !windows

package winreg

import (
	"errors"
	"fmt"
	"runtime"
)

func system() (store, error) {
	return nil, fmt.Errorf("no registry on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
