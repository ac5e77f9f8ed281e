//go:build !linux

package atboot

import "os"

// running is this program.
func running() (string, error) { return os.Executable() }
