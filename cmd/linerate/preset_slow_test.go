//go:build slow && linux

package main

import (
	"testing"

	"linerate/internal/ui/config"
)

// TestSlowPresetsInALab carries every preset out in a lab: see TestPresetsInALab.
func TestSlowPresetsInALab(t *testing.T) {
	carryOut(t, func(config.Preset) bool { return true })
}
