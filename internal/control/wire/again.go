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

// A server that is besieged closes connections before it knows whose they are, by
// lot. Who is closed so tries again, a few times and each time after a longer rest:
// 50 to 100 ms, then twice as long, 1.5 s in all at most.
const (
	dials     = 5
	restLeast = 50 * time.Millisecond
)

// Again calls dial until it does not fail by being hung up on, a few times at most,
// or ctx ends, and returns its last error.
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

// hungUp reports whether the other end of a connection that stood closed it without
// a word, which is an end of file or a reset.
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
