//go:build !linux

package atboot

import "os"

// running returns this program.
func running() (string, error) { return os.Executable() }
