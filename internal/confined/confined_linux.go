package confined

import (
	"os"
	"regexp"
	"strconv"
	"syscall"
	"testing"
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

// Peak returns the most memory in bytes that was resident in this process at a time (VmHWM of
// proc_pid_status(5)); 0 on systems that do not limit memory.
func Peak(t *testing.T) uint64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || m == nil {
		t.Fatalf("no VmHWM in %q: %v", status, err)
	}
	kib, err := strconv.ParseUint(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
