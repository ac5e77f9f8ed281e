//go:build slow && linux

package main

import "testing"

// TestSlowDocumentedCommands runs every command of the pages as it stands there.
func TestSlowDocumentedCommands(t *testing.T) {
	documentedCommands(t, func(command string) string { return command })
}
