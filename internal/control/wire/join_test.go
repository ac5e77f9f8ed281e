package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/must"
)

// refusing is a stream to a program that reads nothing, and reports that afterwards.
type refusing struct{ refused chan struct{} }

func (r refusing) Write([]byte) (int, error) {
	close(r.refused)
	return 0, errors.New("broken pipe")
}

func (refusing) Close() error { return nil }

// TestJoinHearsLastWords: the last output of a program is read, even if it read none of its
// input.
func TestJoinHearsLastWords(t *testing.T) {
	said, says := io.Pipe()
	w := refusing{make(chan struct{})}
	conn, done := Join(said, w)
	must.Do(t, must.Err(conn.Write([]byte("hello"))))
	<-w.refused
	go func() {
		_, _ = says.Write([]byte("no room"))
		_ = says.Close()
	}()
	must.Equal(t, string(must.Get(io.ReadAll(conn))(t)), "no room", "said")
	must.Do(t, conn.Close())
	<-done
}

// TestAgain: only hang-ups are retried, with limited attempts and time.
func TestAgain(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"end of file":   {fmt.Errorf("handshake: %w", io.EOF), dials},
		"reset":         {fmt.Errorf("handshake: %w", reset), dials},
		"refused":       {&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, 1},
		"another error": {errors.New("this is not the server of the link"), 1},
		"timeout":       {os.ErrDeadlineExceeded, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			began := time.Now()
			err := Again(t.Context(), func() error { calls++; return c.err })
			took := time.Since(began)
			must.True(t, errors.Is(err, c.err) && calls == c.calls && took <= 5*time.Second, "%s: %d calls in %v, %v", name, calls, took, err)
		})
	}
	calls := 0
	if err := Again(t.Context(), func() error {
		if calls++; calls < 3 {
			return io.EOF
		}
		return nil
	}); err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls = 0
	err := Again(ctx, func() error { calls++; return io.EOF })
	must.True(t, errors.Is(err, io.EOF) && calls == 1, "a caller who gave up: %d calls, %v", calls, err)
}
