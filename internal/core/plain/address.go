package plain

import (
	"net/netip"
	"net/url"
	"strings"

	"linerate/internal/regex"
)

// ParseURL reads a URL as people write it: the interface of a link-local address stands
// behind %, which RFC 6874 section 2 wants as %25, and an address of IPv6 alone needs no
// brackets.
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

// Secrets that the address of a database may hold ("Connection URIs" of the PostgreSQL
// manual): behind the user, and among its parameters.
var (
	database = regex.New(`postgres(?:ql)?://\S*`)
	secrets  = regex.New(`([?&](?:ssl)?password=)[^&]*`)
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
