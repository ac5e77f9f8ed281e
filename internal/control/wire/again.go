package wire

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

// A server under heavy load closes random connections before it knows their owners. A client
// that is closed this way retries a few times, after a growing rest: 50 to 100 ms, then twice as
// long each time, 1.5 s in all at most.
const (
	dials     = 5
	restLeast = 50 * time.Millisecond
)

// Again calls dial until it succeeds, fails for another reason than a hang-up, has failed a few
// times, or ctx ends. It returns the last error.
func Again(ctx context.Context, dial func() error) error {
	rest := restLeast
	for try := 1; ; try++ {
		err := dial()
		if err == nil || try == dials || !hungUp(err) {
			return err
		}
		select {
		case <-time.After(rest + rand.N(rest)):
			rest *= 2
		case <-ctx.Done():
			return err
		}
	}
}

// hungUp reports whether the other end closed an open connection without an answer, which shows
// as an end of file or a reset.
func hungUp(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	if errors.Is(err, syscall.ECONNRESET) { // also before connect(2) has returned
		return true
	}
	failed, ok := errors.AsType[*os.SyscallError](err)
	return ok && failed.Syscall != "connect" && failed.Syscall != "connectex"
}
