package persist

import (
	"io/fs"
	"os"
)

// owner returns zeros: Windows has no user numbers, and a file gets the rights of its
// directory.
func owner(fs.FileInfo) (uid, gid int) { return 0, 0 }

func chown(*os.File, int, int) error { return nil }

func readOnly(string) bool { return false }
