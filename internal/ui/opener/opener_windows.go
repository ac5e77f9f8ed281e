package opener

import "strings"

// opener returns the shell's opener for all files. It takes one argument, and does not search it
// for commands.
func opener(path string) []string { return []string{"rundll32", "url.dll,FileProtocolHandler", path} }

func blind(func(string) string) string { return "" }

// words splits a user's command; no shell parses it.
func words(command string) []string { return strings.Fields(command) }
