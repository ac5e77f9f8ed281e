package plain

import "strings"

// ShellWord makes one word of s for a POSIX shell: in quotes where the shell would
// take it apart (POSIX.1-2017, Shell Command Language section 2.2).
func ShellWord(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n'\"\\$&;|<>()*?[]#~`!{}") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
