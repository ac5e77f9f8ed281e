package plain

import (
	"regexp"
	"strings"
)

// Secrets that the address of a database may hold ("Connection URIs" of the PostgreSQL
// manual): behind the user, and among its parameters.
var (
	database = regexp.MustCompile(`postgres(?:ql)?://\S*`)
	secrets  = regexp.MustCompile(`([?&](?:ssl)?password=)[^&]*`)
)

// Databases returns a text without the passwords of the addresses of databases in it:
// those between postgres:// and the last @, and those of parameters. What cannot be told
// from a password goes with it.
func Databases(text string) string {
	return database.ReplaceAllStringFunc(text, func(address string) string {
		scheme, rest, _ := strings.Cut(address, "://")
		rest = secrets.ReplaceAllString(rest, "${1}...")
		if at := strings.LastIndex(rest, "@"); at >= 0 {
			if user, _, found := strings.Cut(rest[:at], ":"); found {
				rest = user + ":..." + rest[at:]
			}
		}
		return scheme + "://" + rest
	})
}
