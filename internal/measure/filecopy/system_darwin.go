package filecopy

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// directFlag is 0: past sets F_NOCACHE on the open file.
const directFlag = 0

func memoryFolders() []string { return nil }

const noMemoryDisk = "macos has a file system in memory only after hdiutil and diskutil made one; name its folder to use it"

// dropCache is unsupported: macOS cannot drop a file's pages on request.
func dropCache(f *os.File) (cached, error) {
	return cached{}, fmt.Errorf("empty page cache of %s: macos has no call for it: %w", f.Name(), errors.ErrUnsupported)
}

// past keeps reads and writes of f out of the unified buffer cache, fcntl(2).
func past(f *os.File) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1); err != nil {
		return fmt.Errorf("go past the cache of %s: %w", f.Name(), err)
	}
	return nil
}
