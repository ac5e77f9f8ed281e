package cli

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/app"
	"linerate/internal/must"
)

// TestCopyProgress: of a copy that takes longer than two seconds it is said how much is
// done, how fast that goes and how long it will take; a short one is one line.
func TestCopyProgress(t *testing.T) {
	run := func(terminal bool, took time.Duration) string {
		var out strings.Builder
		a := &console{Env: Env{Err: &out, ErrTerminal: terminal, Getenv: func(string) string { return "" }, Width: func() int { return 80 }}}
		const bytes, steps = 10 << 20, 40
		for i := range steps + 1 {
			a.copying(app.Copying{Host: "nas", Done: bytes / steps * i, Bytes: bytes, Elapsed: took / steps * time.Duration(i)})
		}
		return out.String()
	}
	for _, terminal := range []bool{false, true} {
		must.Equal(t, run(terminal, time.Second), "copying linerate to nas (10 MiB)\n", "a short copy")
		long := run(terminal, 40*time.Second)
		for _, want := range []string{"nas (10 MiB)\n", "of 10 MiB, ", "Mbit/s, ", "s left"} {
			must.Contain(t, long, want, "does not say")
		}
		n := strings.Count(long, "\n")
		must.True(t, (!terminal || n == 1) && (terminal || n >= 4 && n <= 12), "%d lines: %q", n, long)
	}
}
