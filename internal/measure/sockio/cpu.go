package sockio

import "time"

// CPUTime is an amount of processor time.
type CPUTime struct {
	User   time.Duration // in the program
	System time.Duration // in the kernel on the program's behalf
}

// Total is user and system time together.
func (t CPUTime) Total() time.Duration { return t.User + t.System }

// Sub returns t - s.
func (t CPUTime) Sub(s CPUTime) CPUTime {
	return CPUTime{User: t.User - s.User, System: t.System - s.System}
}

// ProcessCPU returns the CPU time of this process since its start, over all
// its threads. Time that the kernel spends in interrupts on behalf of its
// traffic is charged to whoever was interrupted; SystemCPU sees it. It wraps
// errors.ErrUnsupported where the system does not tell.
func ProcessCPU() (CPUTime, error) { return processCPU() }

// ThreadCPU returns the CPU time of the calling thread; the caller holds the
// thread with runtime.LockOSThread. It wraps errors.ErrUnsupported where the
// system does not tell.
func ThreadCPU() (CPUTime, error) { return threadCPU() }

// SystemCPU returns the time that all processors of the machine together have
// been busy since its start, interrupts included and stolen time not. The
// difference of two readings over the wall time between them is the number of
// busy cores. Linux counts in ticks of 10 ms. It wraps errors.ErrUnsupported
// where the system does not tell.
func SystemCPU() (time.Duration, error) { return systemCPU() }
