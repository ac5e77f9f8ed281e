package udpflow

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/measure/engine"
	"linerate/internal/panics"
)

// A line is the TCP connection by which each end knows that the other one is still there
// (docs/wire/udpflow.md, section Line). UDP cannot show that: a datagram's source can be
// forged, and a sender needs no receiver.
type line struct {
	conn    *net.TCPConn
	base    time.Time    // origin of heard
	mine    key          // in reports to this end
	theirs  key          // in reports to the other one
	heard   atomic.Int64 // time of the last report
	looked  atomic.Int64 // time of the last check that found none waiting
	gone    atomic.Bool  // the other end has closed it
	over    chan struct{}
	running sync.WaitGroup
	closing sync.Once
}

// key authenticates a report over UDP as the other end's.
type key [keyLen]byte

func (k *key) fits(b []byte) bool { return subtle.ConstantTimeCompare(k[:], b) == 1 }

const (
	lineMagic  = "lr-line1"
	keyLen     = 16
	lineReport = 8 // bytes
	// reportEvery is the time between two reports of a receiver.
	reportEvery = 250 * time.Millisecond
)

// openLine opens the connection and exchanges the keys.
func openLine(ctx context.Context, env engine.Env) (*line, error) {
	opened, err := env.Open(ctx, 1, engine.SocketOptions{NoDelay: true})
	if err != nil {
		return nil, fmt.Errorf("open line: %w", err)
	}
	if len(opened.Conns) != 1 {
		for _, c := range opened.Conns {
			err = errors.Join(err, c.Close())
		}
		return nil, errors.Join(fmt.Errorf("open line: got %d connections", len(opened.Conns)), err)
	}
	l := &line{conn: opened.Conns[0], base: time.Now(), over: make(chan struct{})}
	_, _ = rand.Read(l.mine[:]) // never fails
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	err = l.greet()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("greet the other end: %w", err), l.conn.Close())
	}
	return l, nil
}

func (l *line) greet() error {
	if _, err := l.conn.Write(append([]byte(lineMagic), l.mine[:]...)); err != nil {
		return err
	}
	var b [len(lineMagic) + keyLen]byte
	if _, err := io.ReadFull(l.conn, b[:]); err != nil {
		return err
	}
	if string(b[:len(lineMagic)]) != lineMagic {
		return fmt.Errorf("it said %q", b[:len(lineMagic)])
	}
	copy(l.theirs[:], b[len(lineMagic):])
	return nil
}

// begin starts to listen and, if this end receives, to report the result of count. It calls
// fail for a bug in that.
func (l *line) begin(count func() int64, fail func(error)) {
	l.running.Go(panics.From(fail, l.listen))
	if count != nil {
		l.running.Go(panics.From(fail, func() { l.report(count) }))
	}
}

// listen records when reports arrive.
func (l *line) listen() {
	var b [lineReport]byte
	for n := 0; ; {
		at := time.Since(l.base)
		_ = l.conn.SetReadDeadline(l.base.Add(at + lookEvery)) // the read then fails too
		more, err := l.conn.Read(b[n:])
		switch n += more; {
		case n == len(b):
			n = 0
			l.heard.Store(int64(time.Since(l.base)))
		case errors.Is(err, os.ErrDeadlineExceeded):
			l.looked.Store(int64(at))
		case err != nil:
			l.gone.Store(true)
			return
		}
	}
}

func (l *line) report(count func() int64) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var b [lineReport]byte
	for {
		binary.BigEndian.PutUint64(b[:], uint64(count()))
		if _, err := l.conn.Write(b[:]); err != nil {
			return // listen notices it too
		}
		select {
		case <-tick.C:
		case <-l.over:
			return
		}
	}
}

// quiet returns the time without a report, up to this end's last check: a delayed end may have
// reports waiting.
func (l *line) quiet() time.Duration { return time.Duration(l.looked.Load() - l.heard.Load()) }

// close closes the line and waits. It is idempotent.
func (l *line) close() (err error) {
	l.closing.Do(func() {
		close(l.over)
		err = l.conn.Close()
		l.running.Wait()
	})
	return err
}
