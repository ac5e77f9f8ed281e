// Package panics converts a panic to an error.
//
// A panic in any goroutine ends the process. Work for one client must not end a server's work
// for all others, so each goroutine that the server starts for a client runs through From: `go
// panics.From(fail, f)()` or `group.Go(panics.From(fail, f))`. The cost is one deferred call
// per goroutine, none per step of a loop in it.
package panics

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Panic is the error of a panic.
type Panic struct {
	Value any    // the argument of panic; a runtime.Error if the runtime panicked
	Stack []byte // of the goroutine, as from runtime/debug.Stack
}

// Error returns the value, and the stack in the lines that follow.
func (p *Panic) Error() string { return fmt.Sprintf("a bug in linerate: %v\n%s", p.Value, p.Stack) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// From returns a function that calls f and, if f panics, calls fail with a *Panic in the same
// goroutine. f must do by defer what other goroutines wait for, such as a send on a channel, or
// fail must do it. fail must neither panic nor block forever.
func From(fail func(error), f func()) func() {
	return func() {
		defer func() {
			switch v := recover().(type) {
			case nil:
			case *Panic: // from a Group
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

// Group is a sync.WaitGroup that passes on panics: a panic in one of its goroutines continues,
// as a *Panic, in the goroutine that calls Wait. The zero value is ready. Go and Wait may be
// called as on a WaitGroup.
type Group struct {
	all sync.WaitGroup

	mu  sync.Mutex
	bug error // the first one that Wait has not passed on yet
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

// Wait waits for all goroutines, and panics if one of them has panicked since the last call.
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
