// Package tries repeats a test against a foreign program, whose known faults and
// other load on the machine may spoil a run of it.
package tries

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Most is how often a test is tried.
const Most = 3

// Repeat calls try until one call has not failed, Most times at most. What a
// failed try said is logged; t fails where all of them do. A try's Cleanup and
// Context end with it.
func Repeat(t *testing.T, try func(t testing.TB)) {
	t.Helper()
	for n := 1; n <= Most; n++ {
		one := &attempt{TB: t}
		one.run(t.Context(), try)
		switch {
		case one.skipped:
			t.Skip(one.text())
		case !one.Failed():
			return
		case n < Most:
			t.Logf("try %d of %d failed, the next one follows:\n%s", n, Most, one.text())
		default:
			t.Errorf("all %d tries failed, the last one:\n%s", Most, one.text())
		}
	}
}

// attempt is the testing.TB of one try. What is not here is the test's own.
type attempt struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	said     []string
	failed   bool
	skipped  bool
	cleanups []func()
}

// run calls try in a goroutine of its own, so that FailNow can end it.
func (a *attempt) run(ctx context.Context, try func(t testing.TB)) {
	ctx, cancel := context.WithCancel(ctx)
	a.ctx = ctx
	a.apart(func() { try(a) })
	cancel()
	for {
		a.mu.Lock()
		last := len(a.cleanups) - 1
		if last < 0 {
			a.mu.Unlock()
			return
		}
		next := a.cleanups[last]
		a.cleanups = a.cleanups[:last]
		a.mu.Unlock()
		a.apart(next)
	}
}

// apart calls f in a goroutine and waits until it has ended, also by Goexit.
func (a *attempt) apart(f func()) {
	var one sync.WaitGroup
	one.Go(f)
	one.Wait()
}

func (a *attempt) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.said, "\n")
}

func (a *attempt) say(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, strings.TrimSuffix(text, "\n"))
}

// Context implements testing.TB.
func (a *attempt) Context() context.Context { return a.ctx }

// Cleanup implements testing.TB.
func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

// Failed implements testing.TB.
func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed
}

// Skipped implements testing.TB.
func (a *attempt) Skipped() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.skipped
}

// Fail implements testing.TB.
func (a *attempt) Fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = true
}

// FailNow implements testing.TB.
func (a *attempt) FailNow() { a.Fail(); runtime.Goexit() }

// Log implements testing.TB.
func (a *attempt) Log(args ...any) { a.say(fmt.Sprintln(args...)) }

// Logf implements testing.TB.
func (a *attempt) Logf(format string, args ...any) { a.say(fmt.Sprintf(format, args...)) }

// Error implements testing.TB.
func (a *attempt) Error(args ...any) { a.Log(args...); a.Fail() }

// Errorf implements testing.TB.
func (a *attempt) Errorf(format string, args ...any) { a.Logf(format, args...); a.Fail() }

// Fatal implements testing.TB.
func (a *attempt) Fatal(args ...any) { a.Log(args...); a.FailNow() }

// Fatalf implements testing.TB.
func (a *attempt) Fatalf(format string, args ...any) { a.Logf(format, args...); a.FailNow() }

// SkipNow implements testing.TB.
func (a *attempt) SkipNow() {
	a.mu.Lock()
	a.skipped = true
	a.mu.Unlock()
	runtime.Goexit()
}

// Skip implements testing.TB.
func (a *attempt) Skip(args ...any) { a.Log(args...); a.SkipNow() }

// Skipf implements testing.TB.
func (a *attempt) Skipf(format string, args ...any) { a.Logf(format, args...); a.SkipNow() }
