package link

import (
	"runtime"

	"linerate/internal/measure/quiet"
)

// Thread prepares the calling goroutine for l and others like it: the Go
// runtime keeps quiet, and where they make raw system calls the goroutine gets
// a thread of its own. The function that it returns undoes it, in the same
// goroutine.
func Thread(l *Link) (release func()) {
	if l.Waiting() == (*poller)(nil).waiting() {
		return quiet.Begin(0).End
	}
	runtime.LockOSThread()
	hold := quiet.Begin(1)
	return func() {
		hold.End()
		runtime.UnlockOSThread()
	}
}
