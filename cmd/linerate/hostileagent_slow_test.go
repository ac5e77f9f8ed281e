//go:build slow && linux

package main

import (
	"testing"
	"time"
)

// TestAgentThatNeverEnds is stopped in each of the three attempts at a block, after
// what a run may take longer than planned, twice.
func TestAgentThatNeverEnds(t *testing.T) {
	meetHostile(t, neverEnds, "did not end the run when it was told to", 150*time.Second)
}
