package labtest

import (
	"strings"
	"testing"
	"time"
)

// recorder takes what a test would have become.
type recorder struct {
	testing.TB
	failed, skipped bool
}

func (r *recorder) Helper()                      {}
func (r *recorder) Logf(format string, a ...any) { r.TB.Logf(format, a...) }
func (r *recorder) Error(...any)                 { r.failed = true }
func (r *recorder) Skipf(string, ...any)         { r.skipped = true }

// TestWrongIsNeverRight: what is wrong in every try fails, or is skipped on a
// machine that has no time, and never passes; what is right once passes.
func TestWrongIsNeverRight(t *testing.T) {
	nap := func() { <-time.After(100 * time.Millisecond) }
	r, calls := &recorder{TB: t}, 0
	Try(r, func() string { calls++; nap(); return "wrong" })
	if r.failed == r.skipped || calls < Tries || calls > most {
		t.Errorf("failed %t, skipped %t after %d tries", r.failed, r.skipped, calls)
	}
	r, calls = &recorder{TB: t}, 0
	Try(r, func() string { calls++; nap(); return strings.Repeat("wrong", 2-calls) })
	if r.failed || r.skipped || calls != 2 {
		t.Errorf("failed %t, skipped %t after %d tries, the second was right", r.failed, r.skipped, calls)
	}
}
