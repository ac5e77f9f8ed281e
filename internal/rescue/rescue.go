// Package rescue makes a panic the error of what it happened in.
//
// A panic in a goroutine ends the process, whoever started it. What a server does
// for one client must not end what it does for all others, so each goroutine that
// it starts for one runs through From: `go rescue.From(fail, f)()` or
// `group.Go(rescue.From(fail, f))`. The cost is one deferred call per goroutine,
// none per step of a loop in it.
package rescue

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Panic is the error that a panic was made.
type Panic struct {
	Value any    // what panic was called with; a runtime.Error for one of the runtime
	Stack []byte // of the goroutine, as of runtime/debug.Stack
}

// Error says the value, and the stack in the lines that follow.
func (p *Panic) Error() string { return fmt.Sprintf("a bug in linerate: %v\n%s", p.Value, p.Stack) }

// Unwrap returns the value where that is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// From returns f with fail called, by the same goroutine, for a panic in it; the
// error is a *Panic. What f owes to others, such as a word on a channel, it must
// give by defer, or fail must. fail must not panic, nor block for ever.
func From(fail func(error), f func()) func() {
	return func() {
		defer func() {
			switch v := recover().(type) {
			case nil:
			case *Panic: // of a Group
				fail(v)
			default:
				fail(&Panic{Value: v, Stack: debug.Stack()})
			}
		}()
		f()
	}
}

// Call calls f, and returns its error, or a *Panic.
func Call(f func() error) (err error) {
	From(func(p error) { err = p }, func() { err = f() })()
	return err
}

// Group is a sync.WaitGroup for goroutines that somebody waits for who answers for
// them: a panic in one goes on, as a *Panic, in who calls Wait. The zero value is
// ready. Go and Wait may be called as those of a WaitGroup.
type Group struct {
	all sync.WaitGroup

	mu  sync.Mutex
	bug error // the first one that nobody was told of
}

// Go runs f in a goroutine.
func (g *Group) Go(f func()) {
	g.all.Go(From(func(err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.bug == nil {
			g.bug = err
		}
	}, f))
}

// Wait waits for all goroutines, and panics where one of them did since the last
// call.
func (g *Group) Wait() {
	g.all.Wait()
	g.mu.Lock()
	bug := g.bug
	g.bug = nil
	g.mu.Unlock()
	if bug != nil {
		panic(bug)
	}
}
