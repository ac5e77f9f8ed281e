package panics

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"linerate/internal/must"
)

// TestFrom: a panic in a goroutine is reported once, with its stack, and the other goroutines
// and the process continue.
func TestFrom(t *testing.T) {
	var all sync.WaitGroup
	told := make(chan error, 10)
	for i := range 10 {
		all.Go(From(func(err error) { told <- err }, func() {
			var none []int
			if i%2 == 0 {
				_ = none[i]
			}
		}))
	}
	all.Wait()
	must.Need(t, len(told) == 5, "%d told", len(told))
	var p *Panic
	err := <-told
	must.True(t, errors.As(err, &p) && strings.Contains(err.Error(), "index out of range") && strings.Contains(err.Error(), "panics_test.go"), "%v", err)
}

func TestCall(t *testing.T) {
	must.OK(t, Call(func() error { return nil }))
	err := Call(func() error { return io.EOF })
	must.True(t, errors.Is(err, io.EOF) && errors.Unwrap(err) == nil, "%v", err)
	for what, v := range map[string]any{"a bug in linerate: boom": "boom", io.ErrClosedPipe.Error(): io.ErrClosedPipe} {
		err := Call(func() error { panic(v) })
		must.Say(t, err, what, "%v", v)
		want, ok := v.(error)
		must.True(t, !ok || errors.Is(err, want), "%v is not %v", err, want)
	}
}

// TestGroup: all goroutines end, and the panic of one continues in Wait, once.
func TestGroup(t *testing.T) {
	var g Group
	whole := make(chan int, 3)
	for i := range 4 {
		g.Go(func() {
			if i == 2 {
				panic("boom")
			}
			whole <- i
		})
	}
	err := Call(func() error { g.Wait(); return nil })
	var p *Panic
	must.True(t, errors.As(err, &p) && p.Value == "boom" && strings.Count(err.Error(), "a bug in linerate") == 1 &&
		strings.Contains(err.Error(), "panics_test.go"), "%v", err)
	must.Equal(t, len(whole), 3, "of 3 others ended")
	g.Wait()
}
