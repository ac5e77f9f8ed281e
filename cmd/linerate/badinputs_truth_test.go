//go:build truth && linux

package main

import (
	"testing"

	"linerate/internal/truth"
)

// TestTruthOfBadInputs: a person hears of each mistake within 15 s.
func TestTruthOfBadInputs(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		try.Claim("the slowest mistake", makeMistakes(try).Seconds(), 0, 15, "s")
	})
}
