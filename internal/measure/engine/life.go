package engine

import (
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

// Begin is the beginning of Run, and end its end, which includes Complete. The
// error is for a test that has been run or closed before.
func (l *Life) Begin() (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun || l.closed {
		return nil, errors.New("run test: it has been run or closed before")
	}
	l.begun = true
	return func() {
		l.Complete()
		close(l.over)
	}, nil
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
