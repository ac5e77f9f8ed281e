package tcpbulk

import "runtime"

// choosePlane returns the plane for that many streams: a thread for each while that leaves a
// core for everything else, beyond that the Go runtime's poller, which is kqueue(2). A thread
// whose calls the runtime does not see keeps its processor until the kernel's scheduler takes
// it, and this one (sched_ule(4)) gives threads that wait for each other all of one core: on a
// machine with one core, FreeBSD 12.1, a flow of 0.2 s over loopback was stopped after 3 to 6
// s.
func choosePlane(streams int) mover {
	if streams < runtime.NumCPU() {
		return blocking{}
	}
	return poller{}
}
