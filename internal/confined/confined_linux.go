package confined

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"syscall"
)

const supported = true

// limit sets this process's limits. RLIMIT_DATA counts private writable memory since Linux 4.7
// (setrlimit(2)), so it excludes what the Go runtime only reserves.
func limit(memoryBytes, cpuSeconds uint64) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: memoryBytes, Max: memoryBytes}); err != nil {
		return err
	}
	return syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: cpuSeconds, Max: cpuSeconds})
}

// Memory returns the memory in bytes that a process has resident, and the most that it ever had
// (VmRSS and VmHWM of proc_pid_status(5)). It returns an error if the process has ended.
func Memory(pid int) (now, most int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &most)
	}
	if most == 0 {
		return 0, 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrProcessDone)
	}
	return now << 10, most << 10, nil
}
