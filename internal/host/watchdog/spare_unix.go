//go:build unix

package watchdog

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// spareFiles is the most files that an undo opens at once: the lock and the two copies of the
// journal, one that it reads, the kernel log, a setting, and the sockets of netlink and
// ethtool.
const spareFiles = 12

// descriptors are file descriptors held in reserve, since a process, or a machine, may have
// none left when a deadline passes.
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
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // go on with what is left
		}
	}
}
