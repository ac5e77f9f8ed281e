//go:build linux || darwin

package budget

import "syscall"

func setRlimit(r *syscall.Rlimit, soft uint64) { r.Cur = soft }
