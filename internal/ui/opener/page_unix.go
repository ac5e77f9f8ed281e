//go:build !windows

package opener

// words has the shell read a command that a user wrote.
func words(command string) []string { return []string{"/bin/sh", "-c", command} }
