//go:build truth

package yamlshape

import (
	"testing"

	"linerate/internal/truth"
)

// TestWhatPassesTakesLittleTime limits the time to parse.
func TestWhatPassesTakesLittleTime(t *testing.T) {
	for name, text := range costly() {
		t.Run(name, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) { try.Claim("parsed in", cheap(try, []byte(text)).Seconds(), 0, 5, "s") })
		})
	}
}
