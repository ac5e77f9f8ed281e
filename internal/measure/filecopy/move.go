package filecopy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/measure/tcpinfo"
)

// sendAll sends all of s.
func sendAll(c *net.TCPConn, s *store, m *meter, buf []byte, plain bool) error {
	var at int64
	if s.file != nil && !s.direct && !plain {
		sent, err := sendFile(c, s, m)
		if err == nil || !errors.Is(err, errors.ErrUnsupported) {
			s.note("sendfile")
			return err
		}
		s.warn("sendfile is not possible here: %v", err)
		at = sent
	}
	if s.file != nil {
		s.note("read and sent in blocks")
	}
	for at < s.size {
		b, err := s.next(buf, at)
		if err != nil {
			return err
		}
		n, err := c.Write(b)
		at = m.moved.Add(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// sendFile sends all of s without copying it through user space, and returns the number of
// bytes.
func sendFile(c *net.TCPConn, s *store, m *meter) (int64, error) {
	var at int64
	for at < s.size {
		n, err := sendfile(c, s.file, at, min(defaultBlock, s.size-at))
		at = m.moved.Add(n)
		if err != nil {
			return at, err
		}
		if n == 0 {
			return at, fmt.Errorf("%s ended after %d of %d bytes", s.where, at, s.size)
		}
	}
	return at, nil
}

// next returns the bytes of s from offset at, as many as fit into buf. For memory it does not
// use buf.
func (s *store) next(buf []byte, at int64) ([]byte, error) {
	if s.mem != nil {
		return s.mem[at:min(at+int64(len(buf)), s.size)], nil
	}
	want := min(int64(len(buf)), s.size-at)
	b := buf[:want]
	if s.direct {
		b = buf // only whole blocks can be read
	}
	n, err := s.file.ReadAt(b, at)
	if int64(n) >= want {
		return buf[:want], nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s ended after %d of %d bytes", s.where, at+int64(n), s.size)
	}
	return nil, err
}

// receiveAll stores incoming data until s is full.
func receiveAll(c *net.TCPConn, s *store, m *meter, buf []byte, halted func() bool) error {
	if s.file != nil {
		s.note("received and written in blocks")
	}
	for at := int64(0); at < s.size; {
		if halted() {
			return errHalted
		}
		want := min(int64(len(buf)), s.size-at)
		b := buf[:want]
		if s.mem != nil {
			b = s.mem[at : at+want]
			s.ahead.arrived(at)
		}
		n, err := io.ReadFull(c, b)
		if s.file != nil && n > 0 && (err == nil || !s.direct) {
			if err := s.put(b[:n], at); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		at = m.moved.Add(int64(n))
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the sender ended after %d of %d bytes", at, s.size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveAll copies all of from to to; if to is nil it discards the data.
func moveAll(from, to *store, m *meter, buf []byte, halted func() bool) error {
	for at := int64(0); at < from.size; {
		if halted() {
			return errHalted
		}
		b, err := from.next(buf, at)
		if err != nil {
			return err
		}
		switch {
		case to == nil && from.mem != nil:
			copy(buf, b) // a file would have been copied into buf too
		case to == nil:
		case to.mem != nil:
			copy(to.mem[at:], b)
		default:
			if err := to.put(b, at); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		at = m.moved.Add(int64(len(b)))
	}
	return nil
}

// readTCP returns the kernel's view of the connection at the sender.
func readTCP(c *net.TCPConn) tcpinfo.Info {
	info, err := tcpinfo.Read(c)
	if err != nil {
		return tcpinfo.Info{Retransmits: fact.Unknown[int64](err.Error())}
	}
	return info
}

// summary returns the sender's kernel statistics of the copy, as the difference to before.
func summary(c *net.TCPConn, before tcpinfo.Info) *model.TCPSummary {
	now := readTCP(c)
	out := &model.TCPSummary{
		MSS: now.MSS, PathMTU: now.PathMTU, Timestamps: now.Timestamps, SACK: now.SACK,
		SendScale: now.SendScale, RecvScale: now.RecvScale,
		Retransmits: grown(before.Retransmits, now.Retransmits),
		SegmentsOut: grown(before.SegmentsOut, now.SegmentsOut), SegmentsIn: grown(before.SegmentsIn, now.SegmentsIn),
		Busy:        grown(before.Busy, now.Busy),
		RwndLimited: grown(before.RwndLimited, now.RwndLimited), SndbufLimited: grown(before.SndbufLimited, now.SndbufLimited),
		RTT: now.RTT, RTTMin: now.RTTMin, Cwnd: now.Cwnd, PeerWindow: now.PeerWindow,
	}
	name, err := tcpinfo.Congestion(c)
	if err != nil {
		out.Congestion = fact.Unknown[string](err.Error())
	} else {
		out.Congestion = fact.Known(name, "TCP_CONGESTION")
	}
	return out
}

func grown[T int64 | time.Duration](before, after fact.Of[T]) fact.Of[T] {
	a, known := before.Get()
	b, also := after.Get()
	if !known || !also {
		return after
	}
	return fact.Known(b-a, after.Source())
}
