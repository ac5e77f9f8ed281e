package plain

import (
	"strings"

	"linerate/internal/regex"
)

// goisms are the terms of Go, its packages and linerate's modules, each with plain words. All
// are replaced, in this order.
var goisms = [...]struct {
	words regex.Regexp
	plain string
}{
	{regex.New(`invalid argument ("(?:[^"\\]|\\.)*") for "(?:-\w, )?(--[\w-]+)" flag: `), "$2: $1: "},
	{regex.New(`(?:"(?:[^"\\]|\\.)*": )?strconv\.(?:ParseInt|Atoi): parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is not a whole number"},
	{regex.New(`(?:"(?:[^"\\]|\\.)*": )?strconv\.ParseUint: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is not a whole number from 0"},
	{regex.New(`(?:"(?:[^"\\]|\\.)*": )?strconv\.ParseFloat: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is not a number"},
	{regex.New(`(?:"(?:[^"\\]|\\.)*": )?strconv\.ParseBool: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is neither true nor false"},
	{regex.New(`(?:"(?:[^"\\]|\\.)*": )?strconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): value out of range`), "$1 is out of range"},
	{regex.New(`\bdial (?:tcp|udp|unix)[46]?: `), ""},
	{regex.New(`\bdial (?:tcp|udp|unix)[46]? (\S+): `), "connect to $1: "},
	{regex.New(`\blisten (?:tcp|udp|unix)[46]?: `), ""},
	{regex.New(`\blisten (?:tcp|udp|unix)[46]? (\S+): bind: `), "$1: "},
	{regex.New(`\blisten (?:tcp|udp|unix)[46]? (\S+): `), "$1: "},
	{regex.New(`\b(?:read|write) (?:tcp|udp|unix)[46]? \S+: `), ""},
	{regex.New(`\blookup (\S+?)(?: on \S+)?: no such host`), "the name $1 is not known"},
	{regex.New(`\blookup (?:tcp|udp)/(\S+): unknown port`), "$1 is not a port"},
	{regex.New(`\blookup (\S+?)(?: on \S+)?: `), "look up $1: "},
	{regex.New(`\baddress (\S+): invalid port`), "$1 is not a port"},
	{regex.New(`\b(?:connect|bind|accept|read|write|sendto|recvfrom|recvmsg|sendmsg|setsockopt): (connection|network|no route|address|broken|no buffer)`), "$1"},
	{regex.New(`\bfork/exec (\S+): no such file or directory`), "$1: no such program"},
	{regex.New(`\bfork/exec (\S+): (?:permission denied|exec format error)`), "$1 is not a program that may be run"},
	{regex.New(`\bexec: "((?:[^"\\]|\\.)*)": executable file not found in (?:\$PATH|%PATH%)`), "$1: no such program"},
	{regex.New(`\bexec: "((?:[^"\\]|\\.)*)": `), "$1: "},
	{regex.New(`\b(?:open|stat|lstat|read|mkdir|readlink|unlink|rename|chmod) (/\S*|[A-Za-z]:\\\S*|\.\S*|\S+\.\w+|\S+): (no such file or directory|is a directory|not a directory|permission denied|file exists|file name too long)`), "$1: $2"},
	{regex.New(`\bcontext deadline exceeded(?: \(Client\.Timeout[^)]*\))?`), "no answer in time"},
	{regex.New(`\bcontext canceled`), "stopped"},
	{regex.New(`\bi/o timeout`), "no answer in time"},
	{regex.New(`\b(?:deadline exceeded|TLS handshake timeout)`), "no answer in time"},
	{regex.New(`\bunexpected EOF\b`), "it ended in the middle"},
	{regex.New(`\bEOF\b`), "the other end hung up"},
	{regex.New(`\b(?:connection reset by peer|broken pipe)`), "the other end hung up"},
	{regex.New(`\buse of closed (?:network connection|file)`), "the connection was closed"},
	{regex.New(`\bremote error: tls: `), "the other end says: "},
	{regex.New(`(^|[\s"(])(?:tls|x509|net/url|yaml|json|sql|sqlite3|net/http|http2|asn1): `), "$1"},
	{regex.New(`\bended: exit status (\d+)`), "ended with exit code $1"},
	{regex.New(`\bexit status (\d+)`), "exit code $1"},
	{regex.New(`\bsignal: (\w+)`), "ended by a signal ($1)"},
}

// Words translates Go's error texts to plain words: no names of functions, packages and system
// calls. It is only for the place that shows errors to users; tests and programs get the
// original.
func Words(s string) string {
	for _, g := range goisms {
		if s = g.words.ReplaceAllString(s, g.plain); s == "" {
			break
		}
	}
	return strings.TrimSpace(s)
}
