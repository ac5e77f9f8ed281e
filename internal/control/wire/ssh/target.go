package ssh

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"linerate/internal/core/plain"
)

// ErrTarget reports a text that is not a host for ssh.
var ErrTarget = errors.New("not a host for ssh")

// Target is a host as passed to ssh.
type Target struct {
	User string // "" leaves it to ssh's configuration
	Host string // a name, an alias of the configuration, or an address without brackets
	Port int    // 0 leaves it to ssh's configuration
}

// ParseTarget parses user@host or ssh://[user@]host[:port]. The error wraps ErrTarget, and does
// not repeat a password.
func ParseTarget(s string) (Target, error) {
	var t Target
	if strings.HasPrefix(s, "ssh://") {
		u, err := plain.ParseURL(s)
		if err != nil {
			return Target{}, fmt.Errorf("%w: no URL", ErrTarget)
		}
		if _, has := u.User.Password(); has {
			return Target{}, fmt.Errorf("%w: passwords are for ssh to ask, not for a command line", ErrTarget)
		}
		if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
			return Target{}, fmt.Errorf("%q: %w: nothing may follow the port", s, ErrTarget)
		}
		t = Target{User: u.User.Username(), Host: u.Hostname()}
		if p := u.Port(); p != "" {
			if t.Port, err = strconv.Atoi(p); err != nil || t.Port < 1 || t.Port > 65535 {
				return Target{}, fmt.Errorf("%q: %w: %s is no port", s, ErrTarget, p)
			}
		}
	} else {
		at := strings.LastIndexByte(s, '@')
		if at < 1 {
			return Target{}, fmt.Errorf("%q: %w: no user", s, ErrTarget)
		}
		t = Target{User: s[:at], Host: s[at+1:]}
		if strings.HasPrefix(t.Host, "[") && strings.HasSuffix(t.Host, "]") {
			t.Host = t.Host[1 : len(t.Host)-1]
		}
		if host, port, err := net.SplitHostPort(s[at+1:]); err == nil {
			return Target{}, fmt.Errorf("%q: %w: a port is written ssh://%s@%s", s, ErrTarget, t.User, net.JoinHostPort(host, port))
		}
	}
	if strings.Contains(t.Host, ":") { // else it is an address without brackets, and a port
		if _, err := netip.ParseAddr(t.Host); err != nil {
			return Target{}, fmt.Errorf("%q: %w: %s is no address", s, ErrTarget, t.Host)
		}
	}
	if t.Host == "" || !harmless(t.Host) || t.User != "" && !harmless(t.User) {
		return Target{}, fmt.Errorf("%q: %w", s, ErrTarget)
	}
	return t, nil
}

// harmless reports whether a name is safe on a command line and in a message: ssh would take a
// leading dash for an option, and its configuration may pass names to a shell (%h and %r of
// ProxyCommand).
func harmless(s string) bool {
	return !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("'\"`$\\;&<>|(){}!*?/,", r)
	})
}

// destination returns the host as an argument of ssh.
func (t Target) destination() string {
	if t.User == "" {
		return t.Host
	}
	return t.User + "@" + t.Host
}

// String returns the target as a user would write it.
func (t Target) String() string {
	if t.Port == 0 {
		return t.destination()
	}
	host := net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
	if t.User != "" {
		host = t.User + "@" + host
	}
	return "ssh://" + host
}
