package reqresp

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"linerate/internal/core/traffic/requests"
	"linerate/internal/measure/plane"
	"linerate/internal/measure/sockio"
	"linerate/internal/panics"
)

// door accepts the fresh connections of an asking end. Its port is open to all; it answers only
// connections with the cookie.
type door struct {
	answerer *answerer
	cookie   [cookieSize]byte
	listener net.Listener
	reply    []byte       // shared by all; never written to
	inWindow atomic.Int64 // requests in the window
	sent     atomic.Int64 // bytes of answers
	slots    chan struct{}
	ctx      context.Context // ends with the door, kept for its connections
	cancel   context.CancelFunc
}

// showing is how long a connection may take to send its request.
const showing = 5 * time.Second

// openDoor listens on the address that the asking end has already reached.
func openDoor(ctx context.Context, a *answerer, cookie [cookieSize]byte) (*door, error) {
	own, ok := a.channel.conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil, errors.New("open a port for fresh connections: the address of this end is not known")
	}
	host := own.IP.String()
	if own.Zone != "" {
		host += "%" + own.Zone
	}
	config := net.ListenConfig{KeepAlive: -1, Control: sockio.Control(options(a.spec))}
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(0)))
	if err != nil {
		return nil, fmt.Errorf("open a port for fresh connections: %w", err)
	}
	d := &door{
		answerer: a, cookie: cookie, listener: l,
		reply: plane.Payload(int(a.spec.Requests.Reply)), slots: make(chan struct{}, a.spec.Streams+requests.Unknown),
	}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return d, nil
}

func (d *door) port() uint16 {
	if a, ok := d.listener.Addr().(*net.TCPAddr); ok {
		return uint16(a.Port)
	}
	return 0
}

// serve accepts connections until the door is shut, and waits for them to end.
func (d *door) serve() {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		select {
		case d.slots <- struct{}{}:
		case <-d.ctx.Done():
			return
		}
		c, err := d.listener.Accept()
		switch {
		case d.ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return
		case err != nil:
			// Too many open files, or a connection that was aborted before it was accepted: the
			// next may work.
			<-d.slots
			time.Sleep(missPause)
			continue
		}
		open.Go(panics.From(d.answerer.fail, func() {
			defer func() { <-d.slots }()
			d.answer(c)
		}))
	}
}

// answer serves one connection. The asking end reports errors, as requests without an answer.
func (d *door) answer(c net.Conn) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(showing)); err != nil {
		return
	}
	defer context.AfterFunc(d.ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	var cookie [cookieSize]byte
	if _, err := io.ReadFull(c, cookie[:]); err != nil {
		return
	}
	if subtle.ConstantTimeCompare(cookie[:], d.cookie[:]) != 1 {
		return
	}
	if t, ok := c.(*net.TCPConn); ok && d.answerer.spec.Nagle {
		if err := t.SetNoDelay(false); err != nil {
			return
		}
	}
	request := make([]byte, d.answerer.spec.Block)
	if _, err := io.ReadFull(c, request); err != nil {
		return
	}
	measured, err := counted(request[0])
	if err != nil {
		return
	}
	if measured {
		d.inWindow.Add(1)
	}
	n, _ := c.Write(d.reply)
	d.sent.Add(int64(n))
}

// shut closes the door.
func (d *door) shut() {
	d.cancel()
	// It fails only if the listener is closed already.
	_ = d.listener.Close()
}
