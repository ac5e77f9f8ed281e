package tcpbulk

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
	"linerate/internal/measure/tcpinfo"
)

// poller is the portable plane: a goroutine per stream, and the Go runtime waits for all.
type poller struct{}

func (poller) waiting() string { return "poller" }

// threads is 0: a waiting goroutine releases its processor.
func (poller) threads(int) int { return 0 }

func (poller) attach(c *net.TCPConn) (link, error) { return connLink{c}, nil }

func (poller) uncopied(*work) error {
	if runtime.GOOS == "linux" {
		return errors.New("a paced stream has no way without a copy")
	}
	return noWay()
}

func (poller) move(w *work) error {
	for _, s := range w.streams {
		c := s.link.(connLink).TCPConn
		if w.role == model.Sender {
			w.worker(func() { w.finish(s, w.write(s, c)) })
			continue
		}
		buf := make([]byte, len(w.block))
		w.worker(func() { w.finish(s, w.read(s, c, buf)) })
	}
	return nil
}

// write sends s's quota.
func (w *work) write(s *stream, c *net.TCPConn) error {
	var sent int64
	p := pacer{rate: w.pace}
	for !w.stop.Load() && sent != s.quota {
		b := w.block[:p.wait(len(w.block), time.Since(w.start))]
		if len(b) == 0 {
			continue
		}
		if s.quota != unlimited {
			b = b[:min(int64(len(b)), s.quota-sent)]
		}
		n, err := c.Write(b)
		sent += int64(n)
		s.count.Store(sent)
		if err != nil {
			return err
		}
	}
	if !w.confirm || w.stop.Load() {
		return nil
	}
	if err := c.CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, c)
	return err
}

// read receives into buf until s ends.
func (w *work) read(s *stream, c *net.TCPConn, buf []byte) error {
	var got int64
	p := pacer{rate: w.pace}
	for !w.stop.Load() {
		if p.hold(got, time.Since(w.start)) {
			continue
		}
		n, err := c.Read(buf)
		if n > 0 {
			if got == 0 {
				w.arrive(s)
			}
			got += int64(n)
			s.count.Store(got)
		}
		if err != nil {
			if errors.Is(err, io.EOF) && w.confirm {
				return errors.Join(c.CloseWrite(), io.EOF)
			}
			return err
		}
	}
	return nil
}

// connLink is a connection that the Go runtime polls.
type connLink struct{ *net.TCPConn }

func (l connLink) interrupt(model.Role) {
	// It fails only on a closed connection, on which nothing waits.
	_ = l.SetDeadline(time.Unix(1, 0))
}

func (l connLink) info() (tcpinfo.Info, error) { return tcpinfo.Read(l.TCPConn) }
func (l connLink) subflows(out []tcpinfo.Subflow) ([]tcpinfo.Subflow, error) {
	return sockio.OnDescriptor(l.TCPConn, func(fd uintptr) ([]tcpinfo.Subflow, error) { return tcpinfo.ReadSubflowsFD(fd, out) })
}
func (l connLink) bbr() (tcpinfo.BBR, error)        { return tcpinfo.ReadBBR(l.TCPConn) }
func (l connLink) congestion() (string, error)      { return tcpinfo.Congestion(l.TCPConn) }
func (l connLink) granted() (sockio.Granted, error) { return sockio.Read(l.TCPConn) }

func (l connLink) close() error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
