//go:build linux || freebsd

package tcpbulk

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// blocking is the plane with a locked thread per stream, which blocks in raw
// system calls.
type blocking struct{}

func (blocking) waiting() string { return "blocking thread" }

func (blocking) threads(n int) int { return n }

func (blocking) attach(c *net.TCPConn) (link, error) {
	l, err := detach(c)
	if err != nil {
		return nil, err
	}
	if err := plane.Block(l.fd); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (blocking) uncopied(w *work) error { return w.uncopied() }

func (blocking) move(w *work) error {
	for _, s := range w.streams {
		fd := s.link.(fdLink).fd
		if w.role == model.Sender {
			w.locked(func() { w.finish(s, w.sendAll(s, fd)) })
			continue
		}
		buf := make([]byte, len(w.block))
		w.locked(func() { w.finish(s, w.receiveAll(s, fd, buf)) })
	}
	return nil
}

// locked is worker with a thread of its own.
func (w *work) locked(f func()) {
	w.ready.Add(1)
	w.running.Go(panics.From(w.fail, func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		w.ready.Done()
		<-w.release
		f()
	}))
}

// sendAll sends s's quota.
func (w *work) sendAll(s *stream, fd int) error {
	var sent int64
	for !w.stop.Load() && sent != s.quota {
		n, errno := w.send(fd, s.quota, sent)
		if errno != 0 && !sockio.Again(errno) {
			return os.NewSyscallError("send", errno)
		}
		sent += int64(n)
		s.count.Store(sent)
	}
	if !w.confirm || w.stop.Load() {
		return nil
	}
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
		return os.NewSyscallError("shutdown", err)
	}
	// The receiver sends no data: this can only be its FIN.
	var one [1]byte
	for !w.stop.Load() {
		if _, errno := sockio.Receive(fd, one[:], 0); !sockio.Again(errno) {
			return os.NewSyscallError("receive", errnoErr(errno))
		}
	}
	return nil
}

// send sends the next block, or what is left of the quota.
func (w *work) send(fd int, quota, sent int64) (int, syscall.Errno) {
	n := int64(len(w.block))
	if quota != unlimited {
		n = min(n, quota-sent)
	}
	if w.file >= 0 {
		return sendFile(fd, w.file, n)
	}
	return sockio.Send(fd, w.block[:n], 0)
}

// uncopied prepares sending from a file in memory, or dropping what arrives in the kernel.
func (w *work) uncopied() (err error) {
	switch {
	case discard == 0:
		return noWay()
	case w.role == model.Receiver:
		w.discard = discard
		return nil
	}
	w.file, err = hold(w.block)
	return err
}

// receiveAll receives into buf until s ends.
func (w *work) receiveAll(s *stream, fd int, buf []byte) error {
	var got int64
	for !w.stop.Load() {
		n, errno := sockio.Receive(fd, buf, w.discard)
		switch {
		case n > 0:
			if got == 0 {
				w.arrive(s)
			}
			got += int64(n)
			s.count.Store(got)
		case errno == 0:
			return w.answer(fd)
		case !sockio.Again(errno):
			return os.NewSyscallError("receive", errno)
		}
	}
	return nil
}

// answer returns io.EOF. If the sender waits for it (w.confirm), answer sends the FIN first.
func (w *work) answer(fd int) error {
	if w.confirm {
		if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
			return os.NewSyscallError("shutdown", err)
		}
	}
	return io.EOF
}
