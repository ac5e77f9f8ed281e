package tables

import (
	"syscall"
	"time"
)

// processCPU returns the CPU time of this process, by GetProcessTimes.
func processCPU() time.Duration {
	self, err := syscall.GetCurrentProcess()
	var created, exited, kernel, user syscall.Filetime
	if err != nil || syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0 // does not happen for the process itself
	}
	return span(kernel) + span(user)
}

// span converts a FILETIME duration, in steps of 100 ns (minwinbase.h).
func span(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
