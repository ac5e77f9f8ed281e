package reqresp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"linerate/internal/measure/sockio"
)

// fresh opens a connection for each request of an asking end.
type fresh struct {
	asker  *asker
	target string             // address of the door
	cookie [cookieSize]byte   // begins each connection
	ctx    context.Context    // of all dials, kept because a worker has no call to pass it through
	cancel context.CancelFunc // of ctx
}

// maxMisses is how many consecutive requests of a worker may fail before it gives up.
const maxMisses = 100

// missPause keeps a worker whose connections are refused from spinning.
const missPause = time.Millisecond

// misses counts the connections that failed.
type misses struct {
	row   int   // current consecutive failures
	all   int64 //
	first error
}

// meet stores the address for fresh connections, and tries one.
func (f *fresh) meet(ctx context.Context, h hello, limit time.Duration) error {
	d := f.asker.direction
	if h.port == 0 {
		return fmt.Errorf("%s: the answering end opened no port for fresh connections", d)
	}
	peer, ok := f.asker.channel.conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("%s: the address of the answering end is not known", d)
	}
	host := peer.IP.String()
	if peer.Zone != "" {
		host += "%" + peer.Zone
	}
	f.target = net.JoinHostPort(host, strconv.Itoa(int(h.port)))
	f.cookie = h.cookie
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, w := range f.asker.workers {
		w.request = slices.Concat(f.cookie[:], w.request)
		w.head = cookieSize
	}
	trying, end := context.WithTimeout(ctx, limit)
	defer end()
	c, err := f.dial(trying)
	if err != nil {
		return fmt.Errorf("%s: open a fresh connection to %s, a port that only this run has "+
			"(does a firewall, or an address translation, stand before it?): %w", d, f.target, err)
	}
	return c.Close()
}

func (f *fresh) dial(ctx context.Context) (net.Conn, error) {
	return sockio.Dial(ctx, net.Dialer{KeepAlive: -1}, "tcp", f.target, options(f.asker.spec))
}

// exchange opens a connection, sends a request, and waits until the peer has closed it. It
// returns when the answer arrived.
func (f *fresh) exchange(w *worker) (time.Duration, error) {
	c, err := f.dial(f.ctx)
	if err != nil {
		return 0, f.said(err)
	}
	defer context.AfterFunc(f.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	done, err := f.converse(w, c)
	// The peer closes first, so that address pairs in TIME_WAIT (RFC 9293 section 3.6.1) are at
	// its end, where they block no new connection.
	return done, f.said(errors.Join(err, c.Close()))
}

func (f *fresh) converse(w *worker, c net.Conn) (time.Duration, error) {
	if t, ok := c.(*net.TCPConn); ok && f.asker.spec.Nagle {
		if err := t.SetNoDelay(false); err != nil {
			return 0, err
		}
	}
	n, err := c.Write(w.request)
	if w.sent.add(n); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, w.reply); err != nil {
		return 0, err
	}
	done := w.now()
	var one [1]byte
	if n, err := c.Read(one[:]); n != 0 || !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("wait for the answering end to close: %d bytes more, %w", n, err)
	}
	return done, nil
}

// said returns err, or errStopped if err comes from an interrupted call.
func (f *fresh) said(err error) error {
	if err != nil && f.asker.stop.Load() {
		return errStopped
	}
	return err
}

func (f *fresh) interrupt() {
	if f.cancel != nil {
		f.cancel()
	}
}

// missed handles an error of a worker: its line has ended, or one fresh connection failed.
func (w *worker) missed(err error) error {
	if w.line != nil || errors.Is(err, errStopped) {
		return err
	}
	m := &w.misses
	if m.all++; m.first == nil {
		m.first = err
	}
	if m.row++; m.row >= maxMisses {
		return fmt.Errorf("%d fresh connections failed one after the other: %w", m.row, err)
	}
	w.waiter.nap(missPause)
	return nil
}

// failures sums up the connections that failed, with the first reason.
func (a *asker) failures() misses {
	var sum misses
	for _, w := range a.workers {
		sum.all += w.misses.all
		if sum.first == nil {
			sum.first = w.misses.first
		}
	}
	return sum
}
