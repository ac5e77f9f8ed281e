package target

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"linerate/internal/core/lists"
)

// longestKnown bounds a file of hosts, in bytes.
const longestKnown = 1 << 20

// Known returns the hosts that this user has used before, as HOST is written: from the ssh
// files below home, and servers named before. It asks the user nothing, and skips files that
// cannot be read.
func Known(getenv func(string) string, home string) (hosts []string) {
	add := func(host string) {
		hosts = lists.Once(hosts, host)
	}
	for _, line := range linesOf(filepath.Join(home, ".ssh", "config")) {
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '=' || r == '"' })
		if len(words) < 2 || !strings.EqualFold(words[0], "host") {
			continue
		}
		for _, host := range words[1:] {
			if host[0] == '#' {
				break
			}
			if !strings.ContainsAny(host, "*?!") {
				add("ssh://" + host)
			}
		}
	}
	for _, line := range linesOf(filepath.Join(home, ".ssh", "known_hosts")) {
		words := strings.Fields(line)
		if len(words) < 3 || strings.ContainsAny(words[0][:1], "#|@") { // a comment, a hash, a marker
			continue
		}
		for host := range strings.SplitSeq(words[0], ",") {
			if strings.ContainsAny(host, "*?!") {
				continue
			}
			if name, port, err := net.SplitHostPort(host); err == nil {
				host = net.JoinHostPort(name, port)
			} else if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
			add("ssh://" + host)
		}
	}
	if n, err := note(getenv, knownFile); err == nil {
		for _, line := range linesOf(n.path) {
			if words := strings.Fields(line); len(words) > 1 {
				add(words[0])
			}
		}
	}
	return hosts
}

// linesOf returns the lines of a regular file.
func linesOf(path string) []string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	text, _ := io.ReadAll(io.LimitReader(f, longestKnown)) // as much as can be read
	return strings.Split(string(text), "\n")
}
