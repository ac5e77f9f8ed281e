package confined

import "syscall"

const supported = true

// limit sets this process's limits. RLIMIT_DATA counts private writable memory since Linux 4.7
// (setrlimit(2)), so it excludes what the Go runtime only reserves.
func limit(memoryBytes, cpuSeconds uint64) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: memoryBytes, Max: memoryBytes}); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: cpuSeconds, Max: cpuSeconds})
}
