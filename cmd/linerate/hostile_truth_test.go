//go:build linux && truth

package main

import (
	"math"
	"testing"
	"time"

	"linerate/internal/truth"
)

// TestTruthRightSecretAmongHostile: among a thousand clients of every kind, and of the most
// expensive kinds, each server in a cgroup of 512 MiB, a client with the right secret waits at
// most 2 s from its first packet to the answer to its first question.
func TestTruthRightSecretAmongHostile(t *testing.T) {
	needRoot(t)
	for name, args := range hostileServers() {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, smallMachine, args...)
			for _, way := range []string{"grpc-web", "endless message", "all kinds of calls", "bodies", "wrong secrets", "everything"} {
				t.Run(way, func(t *testing.T) {
					truth.Hold(t, truth.Tries, func(try *truth.Try) {
						took, most := s.under(try, way, 6*time.Second)
						try.Claim("wait of a right secret", took.Seconds(), math.Inf(-1), friendWithin.Seconds(), "s")
						try.Claim("resident memory", float64(most)/1e6, math.Inf(-1), hostileMemory/1e6, "MB")
					})
				})
			}
			s.stillServes(t)
		})
	}
}
