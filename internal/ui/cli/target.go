package cli

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"strings"

	"linerate/internal/app"
	"linerate/internal/control/runner"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fact"
	"linerate/internal/core/units"
	"linerate/internal/lab"
)

// targetKind is the way to a host.
type targetKind int

const (
	targetHere    targetKind = iota // this machine, in process
	targetServe                     // a linerate serve
	targetLab                       // both ends are virtual
	targetExec                      // an agent on the stdio of a command
	targetSSH                       // an agent brought there over the user's ssh
	targetForeign                   // a program of another kind that measures
)

// target is a parsed HOST.
type target struct {
	kind targetKind
	text string   // as given, secrets removed
	link tls.Link // targetServe
	addr string   // targetExec: address of the data path
	lab  lab.Spec // targetLab
	argv []string // targetExec
	ssh  ssh.Target

	warning string // of how the target was given, "" for none

	foreign foreignKind // targetForeign, whose address is addr
	// peer makes the client of a foreign target; nil is one without options.
	peer func(link fact.Of[units.BitRate]) (runner.Peer, error)
}

// parseTarget reads a HOST argument.
func parseTarget(s string) (target, error) {
	switch {
	case s == "":
		return target{}, withHint(usagef("no host named"), "write user@host, a join link, lab:... or exec:...; see linerate --help")
	case strings.HasPrefix(s, "lab:"):
		spec, err := lab.ParseSpec(strings.TrimPrefix(s, "lab:"))
		if err != nil {
			return target{}, app.WithKind(app.Usage, err)
		}
		return target{kind: targetLab, text: s, lab: spec}, nil
	case strings.HasPrefix(s, "exec:"):
		words := strings.Fields(strings.TrimPrefix(s, "exec:"))
		if len(words) < 2 {
			return target{}, withHint(usagef("%q names no command", s),
				"write the address of the far end and the command that starts its agent:\nexec:10.0.0.2 ip netns exec b linerate agent")
		}
		return target{kind: targetExec, text: s, addr: words[0], argv: words[1:]}, nil
	case isForeign(s):
		return parseForeign(s)
	case strings.HasPrefix(s, "@"):
		return parseLinkAt(s)
	case strings.HasPrefix(s, "linerate://"):
		return parseLink(s)
	case strings.HasPrefix(s, "ssh://"), strings.Contains(s, "@") && !strings.Contains(s, "://"):
		return parseSSH(s)
	case strings.Contains(s, "://"):
		scheme, _, _ := strings.Cut(s, "://")
		return target{}, withHint(usagef("no way to reach %s:// hosts", scheme),
			"start linerate serve on that host and use the link that it prints")
	default:
		return parseHostPort(s)
	}
}

// parseLink reads a join link as linerate serve prints it.
func parseLink(s string) (target, error) {
	link, err := tls.ParseLink(s)
	if err != nil {
		return target{}, app.WithKind(app.Usage, fmt.Errorf("%s: %w", redact(s), err))
	}
	return target{kind: targetServe, link: link, text: "linerate://" + link.Addr + "/?pin=" + link.Pin}, nil
}

// linkVariable is the environment variable that "@" alone stands for.
const linkVariable = "LINERATE_LINK"

// longestLink bounds a file with a link, in bytes.
const longestLink = 4096

// parseLinkAt reads the join link in a file, @FILE, or in $LINERATE_LINK, @: so
// that its secret stands on no command line, which every user of a host can read.
func parseLinkAt(s string) (target, error) {
	file := strings.TrimPrefix(s, "@")
	if file == "" {
		t, err := parseLinkText("$"+linkVariable, os.Getenv(linkVariable))
		return t, withHint(err, "set %s to the link that linerate serve printed, or name a file that holds it: @FILE", linkVariable)
	}
	f, err := os.Open(file)
	if err != nil {
		return target{}, withHint(app.WithKind(app.Usage, err), "@FILE names a file that holds a join link; a user of an ssh host is written user@host")
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestLink))
	if err != nil {
		return target{}, app.WithKind(app.Usage, err)
	}
	t, err := parseLinkText(file, string(text))
	if info, serr := f.Stat(); err == nil && serr == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.warning = fmt.Sprintf("warning: %s holds a secret, and others may read it: chmod 600 %[1]s", file)
	}
	return t, err
}

// parseLinkText reads a link out of a place. What it holds instead is not shown:
// it may be another secret.
func parseLinkText(place, text string) (target, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "linerate://") || strings.ContainsAny(text, " \t\r\n") {
		return target{}, usagef("%s holds no join link: one looks like linerate://HOST:5299/?pin=PIN&secret=SECRET", place)
	}
	return parseLink(text)
}

// parseHostPort knows "host", "host:port" and addresses, to say what is missing.
func parseHostPort(s string) (target, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.Trim(s, "[]"), tls.DefaultPort
	}
	if host == "" || strings.ContainsAny(host, " /,=") {
		return target{}, withHint(usagef("%q is not a host", s), "write user@host, a join link, lab:... or exec:...; see linerate --help")
	}
	// A name alone says nothing by which to know the server, and there is no
	// place yet that remembers pins.
	return target{}, withHint(usagef("%s: a name is not enough to know that host by", net.JoinHostPort(host, port)),
		"start linerate serve there and use the link that it prints:\n'linerate://%s/?pin=...&secret=...'\nor reach it over ssh: ssh://%s", net.JoinHostPort(host, port), host)
}

// redact removes the secret of a join link from text that is kept or shown.
func redact(s string) string {
	if !strings.HasPrefix(s, "linerate://") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil {
		return "linerate://..."
	}
	q := u.Query()
	if q.Has("secret") {
		q.Set("secret", "...")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// redactAll removes secrets from an argument vector.
func redactAll(argv []string) []string {
	out := make([]string, len(argv))
	for i, s := range argv {
		out[i] = redact(s)
	}
	return out
}

func (t target) String() string {
	if t.kind == targetHere {
		return "this machine"
	}
	return fmt.Sprint(t.text)
}
