package engine

import (
	"context"
	"errors"
	"sync"
)

// Life is the part of a Test that is the same for all: Stop and Measured, and
// that Run happens at most once, never after Close, and Close not during Run. A
// Test embeds it. It is safe for concurrent use.
type Life struct {
	stop, measured, over chan struct{}

	mu                               sync.Mutex
	stopped, complete, begun, closed bool

	bug    error                   // what Fail was told first
	cancel context.CancelCauseFunc // of Run's context; nil before Begin

	freeing sync.Once
	failure error // of freeing
}

// NewLife returns the life of a test that is prepared.
func NewLife() *Life {
	return &Life{stop: make(chan struct{}), measured: make(chan struct{}), over: make(chan struct{})}
}

// Stop implements Test.
func (l *Life) Stop() { l.shut(l.stop, &l.stopped) }

// Stopping is closed by Stop.
func (l *Life) Stopping() <-chan struct{} { return l.stop }

// Measured implements Test.
func (l *Life) Measured() <-chan struct{} { return l.measured }

// Complete closes Measured. It may be called more than once.
func (l *Life) Complete() { l.shut(l.measured, &l.complete) }

// shut closes c, once.
func (l *Life) shut(c chan struct{}, done *bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !*done {
		*done = true
		close(c)
	}
}

// Begin is the beginning of Run, and end its end, which includes Complete. Run has
// to use the context that it returns, which ends with ctx or for Fail; end makes
// what Fail was told Run's error. The error is for a test that has been run or
// closed before.
func (l *Life) Begin(ctx context.Context) (run context.Context, end func(*error), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun || l.closed {
		return nil, nil, errors.New("run test: it has been run or closed before")
	}
	l.begun = true
	run, l.cancel = context.WithCancelCause(ctx)
	if l.bug != nil {
		l.cancel(l.bug)
	}
	return run, func(err *error) {
		l.Complete()
		l.mu.Lock()
		l.cancel(nil)
		if l.bug != nil {
			*err = l.bug
		}
		l.mu.Unlock()
		close(l.over)
	}, nil
}

// Fail ends Run, also one that has not begun yet, for a bug in a goroutine of the
// test: that is Run's error. The first call counts. It does not wait.
func (l *Life) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bug == nil {
		l.bug = err
	}
	if l.cancel != nil {
		l.cancel(l.bug)
	}
}

// End is the body of Close: it stops Run, waits for its end, and then has free
// give back what the test holds, the first time. It returns what that returned.
func (l *Life) End(free func() error) error {
	l.Stop()
	l.mu.Lock()
	l.closed = true
	begun := l.begun
	l.mu.Unlock()
	if begun {
		<-l.over
	}
	l.freeing.Do(func() { l.failure = free() })
	return l.failure
}
