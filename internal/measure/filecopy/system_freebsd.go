package filecopy

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
)

// directFlag bypasses the buffer cache if the file system supports that, open(2).
const directFlag = unix.O_DIRECT

// memoryFolders returns the usual mount points of a tmpfs (tmpfs(5)).
func memoryFolders() []string { return []string{"/tmp", "/var/run", os.TempDir()} }

const noMemoryDisk = "no tmpfs with enough room is mounted on /tmp or /var/run, and mounting one needs root"

// dropCache asks the kernel to drop the pages of f, posix_fadvise(2). The result cannot be
// seen.
func dropCache(f *os.File) (cached, error) {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return cached{}, fmt.Errorf("empty page cache of %s: %w", f.Name(), err)
	}
	return fact.Unknown[float64]("freebsd does not report it, and zfs keeps its own cache"), nil
}

// past does nothing: directFlag suffices.
func past(*os.File) error { return nil }
