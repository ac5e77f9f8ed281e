package engine

import (
	"context"
	"errors"
	"sync"
)

// Life is the part that all Tests share: Stop and Measured, and the rule that Run happens at
// most once, never after Close, and Close not during Run. A Test embeds it. It is safe for
// concurrent use.
type Life struct {
	stop, measured, over chan struct{}

	mu                               sync.Mutex
	stopped, complete, begun, closed bool

	bug    error                   // the first error passed to Fail
	cancel context.CancelCauseFunc // of Run's context; nil before Begin

	freeing sync.Once
	failure error // of freeing
}

// NewLife returns the Life of a prepared test.
func NewLife() *Life {
	return &Life{stop: make(chan struct{}), measured: make(chan struct{}), over: make(chan struct{})}
}

// Stop implements Test.
func (l *Life) Stop() { l.shut(l.stop, &l.stopped) }

// Stopping returns the channel that Stop closes.
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

// Begin starts Run; end finishes it, including Complete. Run must use the returned context,
// which ends with ctx or on Fail; end makes Fail's error the error of Run. Begin returns an
// error if the test was run or closed before.
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

// Fail makes Run return err, even if it has not begun, because of a bug in a goroutine of the
// test. Only the first call counts. It does not wait.
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

// End is the body of Close: it stops Run, waits for it, and then calls free, the first time
// only. It returns free's error.
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
