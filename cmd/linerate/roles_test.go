package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/session/sessionpb"
	"linerate/internal/control/session/sessionpb/sessionpbconnect"
	"linerate/internal/control/wire"
)

// roleVar makes this test binary somebody else: "future-agent" on its standard
// input and output, "banner ADDR", "silent ADDR" and "hang up ADDR" for servers
// that are not linerate's, "scan ADDR" for a visitor who is not, "relay=ADDR" for
// a way to what listens there; "crowd" and "friend" for the clients of a server
// under attack, who have their orders in crowdVar.
const roleVar = "LINERATE_TEST_ROLE"

// play plays a role and returns the exit code.
func play(role string) int {
	if addr, ok := strings.CutPrefix(role, "relay="); ok {
		role = "relay " + addr // the command of an exec: target has no quotes
	}
	name, addr := role, ""
	if i := strings.LastIndexByte(role, ' '); i > 0 && role != "future-agent" {
		name, addr = role[:i], role[i+1:]
	}
	ctx := context.Background()
	var err error
	switch name {
	case "future-agent":
		err = futureAgent()
	case "banner", "silent", "hang up":
		err = otherServer(ctx, name, addr)
	case "scan":
		err = scan(ctx, addr)
	case "relay":
		err = relay(ctx, addr)
	case "crowd":
		err = crowd(ctx)
	case "friend":
		err = friend(ctx)
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// otherVersion is a linerate of another protocol.
const otherVersion = "v99.0.0"

// future is an agent that speaks a later protocol and takes everybody.
type future struct {
	sessionpbconnect.UnimplementedSessionServiceHandler
}

// Hello accepts, in a protocol that this linerate does not speak.
func (future) Hello(context.Context, *sessionpb.HelloRequest) (*sessionpb.HelloResponse, error) {
	return &sessionpb.HelloResponse{Protocol: session.Protocol + 1, Version: otherVersion}, nil
}

// futureAgent serves future until its input ends.
func futureAgent() error {
	conn, done := wire.Join(os.Stdin, os.Stdout)
	_, handler := sessionpbconnect.NewSessionServiceHandler(future{})
	l := &single{Conn: conn, done: done}
	l.first.Store(true)
	err := (&http.Server{Handler: handler, Protocols: prior(), ReadHeaderTimeout: time.Minute}).Serve(l)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// prior is HTTP/2 with prior knowledge (RFC 9113 section 3.3).
func prior() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}

// otherServer listens at addr and treats visitors in its way.
func otherServer(ctx context.Context, manner, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			switch manner {
			case "banner":
				_, _ = fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n")
				fallthrough
			case "silent":
				_, _ = io.Copy(io.Discard, c)
			}
		}()
	}
}

// scan does what port scanners and lost clients do.
func scan(ctx context.Context, addr string) error {
	record := "\x16\x03\x01\xff\xff" // a TLS record that never comes
	for range 20 {
		for _, text := range []string{"", "GET / HTTP/1.0\r\n\r\n", "\x00\x01\x02", "L", record, record + strings.Repeat("A", 1<<16)} {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			_, _ = io.WriteString(c, text) // it may hang up while we speak
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// relay joins its standard input and output to a TCP connection, until both
// directions have ended or the connection fails.
func relay(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, c)
	return err
}

// single is a listener with one connection.
type single struct {
	net.Conn
	first atomic.Bool
	done  <-chan struct{} // the connection has ended
}

// Accept returns the connection, then waits for its end.
func (l *single) Accept() (net.Conn, error) {
	if l.first.CompareAndSwap(true, false) {
		return l.Conn, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Addr is the connection's own.
func (l *single) Addr() net.Addr { return l.LocalAddr() }
