//go:build !unix

package access

import "os"

// adopt does nothing: a file belongs to who may use its directory.
func adopt(*os.File, string) error { return nil }
