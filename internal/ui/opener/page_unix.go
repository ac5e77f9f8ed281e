//go:build !windows

package opener

// words lets the shell parse a user's command.
func words(command string) []string { return []string{"/bin/sh", "-c", command} }
