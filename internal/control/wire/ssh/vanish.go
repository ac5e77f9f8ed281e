package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"linerate/internal/panics"
)

const (
	// doubtTime is how long a login may take before large packets are tested (p): its key
	// exchange is five round trips, and no person types before it.
	doubtTime = 3 * time.Second
	// answerTime is how long a server may take to answer a few bytes, and leastWait the least
	// that it gets for full packets.
	answerTime = 5 * time.Second
	leastWait  = 3 * time.Second
	// fullBytes does not fit into one full Ethernet packet, with 1448 bytes of payload.
	fullBytes = 3000
)

// vanishes reports whether a server at addr answers a few bytes but not full packets, which then
// vanish on the way to it: ssh sends its first full packets in its key exchange, and then waits
// without end. The bytes are not valid ssh, so the server answers with an error and hangs up.
func vanishes(ctx context.Context, addr string) bool {
	small, err := protest(ctx, addr, 1, answerTime)
	if err != nil {
		return false
	}
	_, err = protest(ctx, addr, fullBytes, max(leastWait, 4*small))
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// protest sends n bytes of invalid ssh to a server, and returns how long it took to answer.
func protest(ctx context.Context, addr string, n int, wait time.Duration) (time.Duration, error) {
	conn, err := (&net.Dialer{Timeout: wait}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(wait))
	began := time.Now()
	if _, err := io.ReadFull(conn, make([]byte, len("SSH-2.0"))); err != nil {
		return 0, fmt.Errorf("no ssh server: %w", errors.ErrUnsupported)
	}
	if _, err := io.WriteString(conn, strings.Repeat("x", n-1)+"\n"); err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, conn) // it hangs up; a reset counts too
	if errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
		return 0, errors.Join(err, ctx.Err())
	}
	return time.Since(began), nil
}

// doubt tests in the background whether full packets vanish on the way to addr, once a login
// has taken doubtTime. If they do, it calls cancel. stop ends the test and reports whether they
// do.
func doubt(ctx context.Context, addr string, cancel context.CancelFunc) (stop func() bool) {
	ctx, end := context.WithCancel(ctx)
	vanish := false
	var running panics.Group
	running.Go(func() {
		wait := time.NewTimer(doubtTime)
		defer wait.Stop()
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		if vanish = vanishes(ctx, addr); vanish {
			cancel()
		}
	})
	return func() bool {
		end()
		running.Wait()
		return vanish
	}
}
