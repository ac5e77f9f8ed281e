//go:build !unix

package judge

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

func signal(*os.Process, bool) error {
	return fmt.Errorf("stop a process on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
