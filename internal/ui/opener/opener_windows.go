package opener

import "strings"

// opener is that of the shell for files of every kind. It takes one argument, which it
// does not look for commands in.
func opener(path string) []string { return []string{"rundll32", "url.dll,FileProtocolHandler", path} }

func blind(func(string) string) string { return "" }

// words are those of a command that a user wrote; no shell reads it.
func words(command string) []string { return strings.Fields(command) }
