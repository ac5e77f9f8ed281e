//go:build linux || freebsd

package tcpbulk

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
	"linerate/internal/rescue"
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
	w.running.Go(rescue.From(w.fail, func() {
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
	b := w.block
	for !w.stop.Load() && sent != s.quota {
		if s.quota != unlimited {
			b = b[:min(int64(len(b)), s.quota-sent)]
		}
		n, errno := sockio.Send(fd, b, 0)
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

// receiveAll receives into buf until s ends.
func (w *work) receiveAll(s *stream, fd int, buf []byte) error {
	var got int64
	for !w.stop.Load() {
		n, errno := sockio.Receive(fd, buf, 0)
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
