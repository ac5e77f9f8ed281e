package tcpbulk

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
)

// epoll is the plane for many streams: each core has a locked thread that serves a part of
// them, one block at a time, as the kernel reports them ready.
type epoll struct{}

func (epoll) waiting() string { return "epoll" }

// threads counts both directions at once, as each may have workers.
func (epoll) threads(n int) int { return 2 * min(n, runtime.NumCPU()) }

func (epoll) attach(c *net.TCPConn) (link, error) {
	// The socket stays non-blocking, as package net made it.
	return detach(c)
}

func (epoll) uncopied(w *work) error { return w.uncopied() }

// events is the most streams that one call reports.
const events = 64

func (epoll) move(w *work) error {
	n := min(len(w.streams), runtime.NumCPU())
	loops := make([]*loop, 0, n)
	for i := range n {
		l, err := newLoop(w, i, n)
		if err != nil {
			for _, made := range loops {
				_ = unix.Close(made.fd)
			}
			return err
		}
		loops = append(loops, l)
	}
	for _, l := range loops {
		w.locked(l.run)
	}
	return nil
}

// loop serves one thread's part of the streams.
type loop struct {
	w       *work
	fd      int    // of the epoll instance
	buf     []byte // of a receiver
	streams []*stream
	counts  []int64 // per stream, written by this worker only
	left    int     // streams that have not ended
	ready   [events]unix.EpollEvent
}

// newLoop returns the loop for every n-th stream from i.
func newLoop(w *work, i, n int) (*loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make epoll instance: %w", err)
	}
	l := &loop{w: w, fd: fd}
	event := unix.EpollEvent{Events: unix.EPOLLOUT}
	if w.role == model.Receiver {
		l.buf = make([]byte, len(w.block))
		event.Events = unix.EPOLLIN
	}
	for ; i < len(w.streams); i += n {
		s := w.streams[i]
		event.Fd = int32(len(l.streams)) // the kernel returns it unchanged
		l.streams = append(l.streams, s)
		if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, s.link.(fdLink).fd, &event); err != nil {
			_ = unix.Close(fd)
			return nil, fmt.Errorf("watch socket: %w", err)
		}
	}
	l.left = len(l.streams)
	l.counts = make([]int64, l.left)
	return l, nil
}

// run serves the streams until all have ended.
func (l *loop) run() {
	defer unix.Close(l.fd)
	for l.left > 0 && !l.w.stop.Load() {
		n, errno := l.wait()
		if errno != 0 && !sockio.Again(errno) {
			l.endAll(os.NewSyscallError("epoll_pwait", errno))
			return
		}
		for i := range n {
			if l.w.role == model.Sender {
				l.sendOne(int(l.ready[i].Fd))
			} else {
				l.receiveOne(int(l.ready[i].Fd))
			}
		}
	}
	l.endAll(nil)
}

// wait blocks until streams are ready, at most for plane.Patience. It is raw for the reasons of
// send; epoll_pwait always returns on a signal.
//
//go:noinline
func (l *loop) wait() (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.fd), uintptr(unsafe.Pointer(&l.ready[0])),
		events, uintptr(plane.Patience/time.Millisecond), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// endAll ends the remaining streams.
func (l *loop) endAll(reason error) {
	for _, s := range l.streams {
		if !s.over.Load() {
			l.w.finish(s, reason)
		}
	}
}

// end ends stream i.
func (l *loop) end(i int, reason error) {
	s := l.streams[i]
	// Otherwise the kernel would report the ended stream forever.
	if err := unix.EpollCtl(l.fd, unix.EPOLL_CTL_DEL, s.link.(fdLink).fd, nil); err != nil && reason == nil {
		reason = os.NewSyscallError("epoll_ctl", err)
	}
	l.w.finish(s, reason)
	l.left--
}

// sendOne sends a block, or the rest of the quota. A stream that has sent its quota waits for
// the receiver's FIN.
func (l *loop) sendOne(i int) {
	s := l.streams[i]
	fd := s.link.(fdLink).fd
	if l.counts[i] == s.quota {
		var one [1]byte
		if _, errno := sockio.Receive(fd, one[:], 0); !sockio.Again(errno) {
			l.end(i, os.NewSyscallError("receive", errnoErr(errno)))
		}
		return
	}
	n, errno := l.w.send(fd, s.quota, l.counts[i])
	if errno != 0 {
		if !sockio.Again(errno) {
			l.end(i, os.NewSyscallError("send", errno))
		}
		return
	}
	l.counts[i] += int64(n)
	s.count.Store(l.counts[i])
	if l.counts[i] != s.quota {
		return
	}
	err := unix.Shutdown(fd, unix.SHUT_WR)
	if err == nil {
		err = unix.EpollCtl(l.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)})
	}
	if err != nil {
		l.end(i, os.NewSyscallError("shutdown", err))
	}
}

// receiveOne receives what has arrived, at most a block.
func (l *loop) receiveOne(i int) {
	s := l.streams[i]
	fd := s.link.(fdLink).fd
	n, errno := sockio.Receive(fd, l.buf, l.w.discard)
	switch {
	case n > 0:
		if l.counts[i] == 0 {
			l.w.arrive(s)
		}
		l.counts[i] += int64(n)
		s.count.Store(l.counts[i])
	case errno == 0:
		l.end(i, l.w.answer(fd))
	case !sockio.Again(errno):
		l.end(i, os.NewSyscallError("receive", errno))
	}
}
