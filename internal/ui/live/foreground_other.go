//go:build !unix

package live

import "os"

// Foreground reports whether this process has the terminal f to itself: where there are
// no jobs it has.
func Foreground(*os.File) bool { return true }
