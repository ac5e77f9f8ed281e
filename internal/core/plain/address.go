package plain

import (
	"net/netip"
	"net/url"
	"strings"

	"linerate/internal/regex"
)

// ParseURL parses a URL as users write it: the interface of a link-local address follows %,
// where RFC 6874 section 2 wants %25, and an IPv6 address alone needs no brackets.
func ParseURL(s string) (*url.URL, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return url.Parse(s)
	}
	user, host := "", rest
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, host = rest[:at+1], rest[at+1:]
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		host = "[" + host + "]"
	}
	if address, zone, zoned := strings.Cut(host, "%"); zoned && strings.HasPrefix(host, "[") && !strings.HasPrefix(zone, "25") {
		host = address + "%25" + zone
	}
	return url.Parse(scheme + "://" + user + host)
}

// Secrets in the address of a database ("Connection URIs" of the PostgreSQL manual): after the
// user, and among the parameters.
var (
	database = regex.New(`postgres(?:ql)?://\S*`)
	secrets  = regex.New(`([?&](?:ssl)?password=)[^&]*`)
)

// Databases removes the passwords from database addresses in a text: those between postgres://
// and the last @, and those in parameters. It also removes anything that it cannot distinguish
// from a password.
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
