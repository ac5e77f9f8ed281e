package persist

import (
	"io/fs"
	"os"
)

// owner knows no numbers of users: a file takes the rights of its directory.
func owner(fs.FileInfo) (uid, gid int) { return 0, 0 }

func chown(*os.File, int, int) error { return nil }

func readOnly(string) bool { return false }
