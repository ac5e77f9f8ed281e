package reqresp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"linerate/internal/measure/sockio"

	"golang.org/x/sys/unix"
)

// threadsPerCore is up to where a thread per stream answers more requests than
// goroutines do. Measured with both ends in one process, over the loopback, on
// two cores that other work kept busy, 1 byte each way, in thousands of
// requests per second: 395 by threads and 238 by goroutines with 4 streams, 360
// and 230 with 8, 284 and 255 with 16, 200 and 249 with 64.
const threadsPerCore = 8

// choosePlane returns the plane for so many streams, and a warning where it is
// not as asked: one thread for each as long as they are few for the cores,
// goroutines beyond that. Who waits by polling needs a core for each stream,
// and one for everything else.
func choosePlane(streams int, spin bool) (plane, string) {
	cores := runtime.NumCPU()
	switch {
	case spin && streams < cores:
		return direct{spin: true}, ""
	case streams <= threadsPerCore*cores:
		if spin {
			return direct{}, fmt.Sprintf("waiting by polling is not possible for %d streams on %d cores", streams, cores)
		}
		return direct{}, ""
	}
	if spin {
		return poller{}, fmt.Sprintf("waiting by polling is not possible for %d streams on %d cores", streams, cores)
	}
	return poller{}, ""
}

// direct is the plane with a locked thread per stream and raw system calls.
type direct struct {
	spin bool // the socket does not block: the thread asks again and again
}

func (d direct) waiting() string {
	if d.spin {
		return "spinning thread"
	}
	return "blocking thread"
}

func (direct) threads(n int) int { return n }

// watch is how long before its time a thread stops napping: twice what a nap of
// 1 ms overshot at most in 90 of 100 cases with a timer slack of 1 ns (two cores
// of a virtual machine, Linux 6.18: median 7 µs, p90 14 µs, p99 45 µs).
const watch = 30 * time.Microsecond

func (direct) margin() time.Duration { return watch }

func (direct) nap(d time.Duration) { nap(d) }

// work locks the thread and takes the slack off its timers, which is 50 µs
// (prctl(2), PR_SET_TIMERSLACK).
func (direct) work(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Where it is not allowed naps are longer, and the report says so.
	if unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) == nil {
		// 0 is the default of the thread.
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }()
	}
	f()
}

// nap is for any thread: the runtime's own clock has a grain of 1 ms. The
// scheduler is told, since a nap is long.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	// A signal ends it early; the caller looks at the clock again.
	_ = unix.Nanosleep(&ts, nil)
}

// patience is the longest that a raw call blocks. It bounds how long a thread
// can miss the stop mark. It also makes the calls interruptible: with a time
// limit on the socket the kernel returns EINTR on a signal instead of starting
// again (signal(7)), so that the Go runtime can stop the thread although it
// does not know that the thread is in the kernel.
const patience = 100 * time.Millisecond

// fdLine is a connection that the Go runtime does not know.
type fdLine struct {
	fd   int
	stop *atomic.Bool
}

// attach takes c's socket out of the Go runtime's hands and closes c.
func (d direct) attach(c *net.TCPConn, stop *atomic.Bool) (line, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reach socket: %w", err)
	}
	l := fdLine{fd: -1, stop: stop}
	var failed error
	err = raw.Control(func(fd uintptr) {
		l.fd, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	if !d.spin {
		limit := unix.NsecToTimeval(int64(patience))
		err = errors.Join(
			unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
			unix.SetsockoptTimeval(l.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
			unix.SetNonblock(l.fd, false))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make socket blocking: %w", err), l.close())
		}
	}
	if err := c.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("close first descriptor: %w", err), l.close())
	}
	return l, nil
}

func (l fdLine) send(b []byte) error { return l.said(l.sendAll(b)) }

func (l fdLine) receive(b []byte) error { return l.said(l.receiveAll(b)) }

// said returns err, or errStopped for the error of an interrupted call.
func (l fdLine) said(err error) error {
	if err != nil && l.stop.Load() {
		return errStopped
	}
	return err
}

func (l fdLine) sendAll(b []byte) error {
	for !l.stop.Load() {
		n, errno := sockio.Send(l.fd, b, 0)
		if errno != 0 && !sockio.Again(errno) {
			return os.NewSyscallError("send", errno)
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
	return errStopped
}

func (l fdLine) receiveAll(b []byte) error {
	whole := len(b)
	for !l.stop.Load() {
		n, errno := sockio.Receive(l.fd, b, 0)
		switch {
		case n > 0:
			if b = b[n:]; len(b) == 0 {
				return nil
			}
		case errno == 0 && len(b) == whole:
			return io.EOF
		case errno == 0:
			return io.ErrUnexpectedEOF
		case !sockio.Again(errno):
			return os.NewSyscallError("receive", errno)
		}
	}
	return errStopped
}

func (l fdLine) interrupt() {
	// It fails only where the connection has ended already.
	_ = unix.Shutdown(l.fd, unix.SHUT_RDWR)
}

func (l fdLine) close() error { return unix.Close(l.fd) }
