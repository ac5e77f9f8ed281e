package budget

import "syscall"

func setRlimit(r *syscall.Rlimit, soft uint64) { r.Cur = int64(soft) }
