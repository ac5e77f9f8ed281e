package tcpbulk

import "runtime"

// choosePlane returns the plane for so many streams: a thread for each while there
// are few for each core, beyond that the Go runtime's poller, which is kqueue(2).
func choosePlane(streams int) plane {
	if streams <= threadsPerCore*runtime.NumCPU() {
		return blocking{}
	}
	return poller{}
}

// threadsPerCore is as on Linux, where it was measured.
const threadsPerCore = 2
