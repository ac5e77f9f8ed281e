//go:build !unix

package live

import "os"

// Foreground reports whether this process has the terminal f to itself: always true on systems
// without job control.
func Foreground(*os.File) bool { return true }
