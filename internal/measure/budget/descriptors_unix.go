//go:build linux || darwin || freebsd

package budget

import (
	"fmt"
	"syscall"
)

func raiseDescriptors() (int, error) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	// The fields are signed on FreeBSD, where RLIM_INFINITY is the largest number.
	soft, hard := min(uint64(r.Cur), MostDescriptors), min(uint64(r.Max), MostDescriptors)
	if soft >= hard {
		return int(soft), nil
	}
	setRlimit(&r, hard)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return int(soft), fmt.Errorf("raise the limit of open files from %d to %d: %w", soft, hard, err)
	}
	return int(hard), nil
}
