package filecopy

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
)

// directFlag opens a file past the buffer cache as far as the file system
// does that, open(2).
const directFlag = unix.O_DIRECT

// memoryFolders are where a tmpfs is often mounted (tmpfs(5)).
func memoryFolders() []string { return []string{"/tmp", "/var/run", os.TempDir()} }

const noMemoryDisk = "no tmpfs with enough room is mounted on /tmp or /var/run, and mounting one needs root"

// dropCache asks the kernel to forget the pages of f, posix_fadvise(2). What
// came of it cannot be seen.
func dropCache(f *os.File) (cached, error) {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return cached{}, fmt.Errorf("empty page cache of %s: %w", f.Name(), err)
	}
	return fact.Unknown[float64]("freebsd does not tell, and zfs keeps its own cache"), nil
}

// past sets nothing more: directFlag has.
func past(*os.File) error { return nil }
