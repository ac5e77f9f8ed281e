package plain

import (
	"regexp"
	"strings"
)

// goisms are the words of Go, its packages and those that linerate is made with, each
// with what a person would say. All are replaced, in this order.
var goisms = [...]struct {
	words *regexp.Regexp
	plain string
}{
	{regexp.MustCompile(`invalid argument ("(?:[^"\\]|\\.)*") for "(?:-\w, )?(--[\w-]+)" flag: `), "$2: $1: "},
	{regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*": )?strconv\.(?:ParseInt|Atoi): parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is not a whole number"},
	{regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*": )?strconv\.ParseUint: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is not a whole number from 0"},
	{regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*": )?strconv\.ParseFloat: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is not a number"},
	{regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*": )?strconv\.ParseBool: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is neither true nor false"},
	{regexp.MustCompile(`(?:"(?:[^"\\]|\\.)*": )?strconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): value out of range`), "$1 is out of range"},
	{regexp.MustCompile(`\bdial (?:tcp|udp|unix)[46]?: `), ""},
	{regexp.MustCompile(`\bdial (?:tcp|udp|unix)[46]? (\S+): `), "connect to $1: "},
	{regexp.MustCompile(`\blisten (?:tcp|udp|unix)[46]?: `), ""},
	{regexp.MustCompile(`\blisten (?:tcp|udp|unix)[46]? (\S+): bind: `), "$1: "},
	{regexp.MustCompile(`\blisten (?:tcp|udp|unix)[46]? (\S+): `), "$1: "},
	{regexp.MustCompile(`\b(?:read|write) (?:tcp|udp|unix)[46]? \S+: `), ""},
	{regexp.MustCompile(`\blookup (\S+?)(?: on \S+)?: no such host`), "the name $1 is not known"},
	{regexp.MustCompile(`\blookup (?:tcp|udp)/(\S+): unknown port`), "$1 is not a port"},
	{regexp.MustCompile(`\blookup (\S+?)(?: on \S+)?: `), "look up $1: "},
	{regexp.MustCompile(`\baddress (\S+): invalid port`), "$1 is not a port"},
	{regexp.MustCompile(`\b(?:connect|bind|accept|read|write|sendto|recvfrom|recvmsg|sendmsg|setsockopt): (connection|network|no route|address|broken|no buffer)`), "$1"},
	{regexp.MustCompile(`\bfork/exec (\S+): no such file or directory`), "$1: no such program"},
	{regexp.MustCompile(`\bfork/exec (\S+): (?:permission denied|exec format error)`), "$1 is not a program that may be run"},
	{regexp.MustCompile(`\bexec: "((?:[^"\\]|\\.)*)": executable file not found in (?:\$PATH|%PATH%)`), "$1: no such program"},
	{regexp.MustCompile(`\bexec: "((?:[^"\\]|\\.)*)": `), "$1: "},
	{regexp.MustCompile(`\b(?:open|stat|lstat|read|mkdir|readlink|unlink|rename|chmod) (/\S*|[A-Za-z]:\\\S*|\.\S*|\S+\.\w+|\S+): (no such file or directory|is a directory|not a directory|permission denied|file exists|file name too long)`), "$1: $2"},
	{regexp.MustCompile(`\bcontext deadline exceeded(?: \(Client\.Timeout[^)]*\))?`), "no answer in time"},
	{regexp.MustCompile(`\bcontext canceled`), "stopped"},
	{regexp.MustCompile(`\bi/o timeout`), "no answer in time"},
	{regexp.MustCompile(`\b(?:deadline exceeded|TLS handshake timeout)`), "no answer in time"},
	{regexp.MustCompile(`\bunexpected EOF\b`), "it ended in the middle"},
	{regexp.MustCompile(`\bEOF\b`), "the other end hung up"},
	{regexp.MustCompile(`\b(?:connection reset by peer|broken pipe)`), "the other end hung up"},
	{regexp.MustCompile(`\buse of closed (?:network connection|file)`), "the connection was closed"},
	{regexp.MustCompile(`\bremote error: tls: `), "the other end says: "},
	{regexp.MustCompile(`(^|[\s"(])(?:tls|x509|net/url|yaml|json|sql|sqlite3|net/http|http2|asn1): `), "$1"},
	{regexp.MustCompile(`\bended: exit status (\d+)`), "ended with exit code $1"},
	{regexp.MustCompile(`\bexit status (\d+)`), "exit code $1"},
	{regexp.MustCompile(`\bsignal: (\w+)`), "ended by a signal ($1)"},
}

// Words returns what Go says of an error in the words of a person: no names of
// functions, packages and system calls. It is for the one place that shows errors:
// tests and programs are told them as they are.
func Words(s string) string {
	for _, g := range goisms {
		if s = g.words.ReplaceAllString(s, g.plain); s == "" {
			break
		}
	}
	return strings.TrimSpace(s)
}
