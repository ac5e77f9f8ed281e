//go:build truth

package cli

import (
	"testing"
	"time"

	"linerate/internal/truth"
)

// TestCompletionIsSoon: completion answers before a user would press tab again.
func TestCompletionIsSoon(t *testing.T) {
	w := newWorld(t)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		for _, args := range [][]string{{"test", ""}, {"set", "tcp.sa"}, {"test", "lab:lan,far.tcp.sack=o"}} {
			began := time.Now()
			w.main(t, append([]string{"__complete"}, args...)...)
			try.Claim(args[0]+" "+args[1], time.Since(began).Seconds(), 0, 2, "s")
		}
	})
}
