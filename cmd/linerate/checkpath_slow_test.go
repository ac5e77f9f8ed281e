//go:build slow && linux

package main

import "testing"

func TestSlowCheckPacketSizes(t *testing.T) {
	checkPacketSizes(t, true, "small, and said so", "black hole both ways", "black hole one way", "two ends differ")
}
