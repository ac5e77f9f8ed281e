package tuner_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/tuner"
	"linerate/internal/must"
)

// childVar makes this test binary a tuner that echoes.
const childVar = "LINERATE_TUNER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		err := tuner.Serve(context.Background(), os.Stdin, func(ctx context.Context, r tuner.Request, conn net.Conn) {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			_, _ = io.WriteString(conn, r.Peer+";")
			_, _ = io.Copy(conn, conn)
		})
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func start(t *testing.T) *tuner.Tuner {
	t.Helper()
	t.Setenv(childVar, "1")
	return must.Get(tuner.Start(t.Context(), []string{os.Args[0]}, io.Discard))(t)
}

// TestConnections: the tuner hands over separate connections, up to a limit, and ends them when
// it ends.
func TestConnections(t *testing.T) {
	tn := start(t)
	var conns []net.Conn
	var err error
	for range 17 {
		var c net.Conn
		if c, err = tn.Open(t.Context(), tuner.Request{Peer: "192.0.2.1"}); err != nil {
			break
		}
		conns = append(conns, c)
	}
	must.Need(t, len(conns) == 16 && errors.Is(err, session.ErrBusy), "%d connections, then %v", len(conns), err)
	for _, c := range conns {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		must.OK(t, must.Err(io.WriteString(c, "hello")))
		b := make([]byte, len("192.0.2.1;hello"))
		_, err := io.ReadFull(c, b)
		must.True(t, err == nil && string(b) == "192.0.2.1;hello", "%q, %v", b, err)
	}
	must.Fail(t, must.Err(tn.Open(t.Context(), tuner.Request{Peer: strings.Repeat("x", 2000)})), "a request of any length is sent")
	must.OK(t, tn.Close())
	for _, c := range conns {
		_, err := io.ReadAll(c)
		must.True(t, err == nil || errors.Is(err, syscall.ECONNRESET), "%v", err)
		_ = c.Close()
	}
	must.Fail(t, must.Err(tn.Open(t.Context(), tuner.Request{})), "a tuner that has ended is asked")
}

// TestRubbish: an invalid request ends the tuner.
func TestRubbish(t *testing.T) {
	for _, text := range []string{"{", "", strings.Repeat("x", 5000)} {
		fds := must.Get(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
		mine, its := os.NewFile(uintptr(fds[0]), "mine"), os.NewFile(uintptr(fds[1]), "its")
		done := make(chan error, 1)
		go func() {
			done <- tuner.Serve(t.Context(), its, func(context.Context, tuner.Request, net.Conn) { t.Error("served") })
		}()
		b := make([]byte, 1)
		must.True(t, func() error { _, err := io.ReadFull(mine, b); return err }() == nil && bytes.Equal(b, []byte("+")), "it is not ready: %q", b)
		must.OK(t, must.Err(mine.WriteString(text)))
		_ = mine.Close()
		err := must.Wait(t, "the end of the tuner", done)
		must.Equal(t, err == nil, text == "", "%.10q: %v", text, err)
	}
}
