//go:build unix

package watchdog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spareFiles is how many files an undo opens at once, at most: the lock and the two copies of the
// journal, one that it reads, the kernel's log, a setting, and the sockets of netlink and ethtool.
const spareFiles = 12

// descriptors are file descriptors that are held back, since a process, or a machine, may have
// none left when a deadline comes.
type descriptors struct{ held []*os.File }

func (d *descriptors) hold() error {
	for len(d.held) < spareFiles {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("hold file descriptors back for the undo: %w", err)
		}
		d.held = append(d.held, f)
	}
	return nil
}

// release also raises a limit that was lowered since, as far as this process may.
func (d *descriptors) release() {
	for _, f := range d.held {
		_ = f.Close() // nothing is written to it
	}
	d.held = nil
	var limit unix.Rlimit
	const enough = 4 * spareFiles
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < enough {
		limit.Cur, limit.Max = enough, max(limit.Max, enough)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); errors.Is(err, unix.EPERM) {
			_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
			limit.Cur = limit.Max
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // what is left has to do
		}
	}
}
