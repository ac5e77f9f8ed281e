//go:build truth && linux

package main

import (
	"testing"

	"linerate/internal/truth"
)

// TestTruthOfHostileAgents: the controller gives up a hostile agent in time.
func TestTruthOfHostileAgents(t *testing.T) {
	for _, h := range badAgents() {
		t.Run(string(h.manner), func(t *testing.T) {
			t.Parallel()
			truth.Hold(t, 1, func(try *truth.Try) {
				try.Claim("ends", meetHostile(try, h).Seconds(), 0, h.within.Seconds(), "s")
			})
		})
	}
}
