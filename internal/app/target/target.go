// Package target turns a HOST argument into open ends: it parses the text, starts or finds the
// agent, asks the user for what that needs, opens the session and reads the host.
package target

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"linerate/internal/app"
	"linerate/internal/control/wire/ssh"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/lists"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/lab"
	"linerate/internal/measure/program"
)

// Kind is the way to reach a host.
type Kind int

// The ways to reach a host.
const (
	Here    Kind = iota // this machine, in process
	Serve               // a linerate serve
	Lab                 // both ends are virtual
	Exec                // an agent on the stdio of a command
	SSH                 // an agent started, and copied if needed, over the user's ssh
	Foreign             // a foreign program that measures
)

// Target is a parsed HOST.
type Target struct {
	Kind Kind
	Text string   // as given, secrets removed
	Link tls.Link // Serve
	Addr string   // Exec: address of the data path
	Spec lab.Spec // Lab
	Argv []string // Exec
	SSH  ssh.Target

	Named   string // Serve: the name, if it was given without a link
	Warning string // about how the target was given, "" for none

	Program program.Program // Foreign; its address is Addr
	client  program.Client  // the client of Program that Fit made with given
	given   program.Values
}

// Parse parses a HOST argument. env has the link that "@" stands for, and the known foreign
// programs.
func Parse(s string, env app.Env) (Target, error) {
	if p, ok := foreignScheme(s, env.AllPrograms()); ok {
		return parseForeign(s, p)
	}
	switch {
	case s == "":
		return Target{}, fault.WithHint(fault.Usagef("no host named"), "write user@host, a join link, lab:... or exec:...; see linerate --help")
	case strings.HasPrefix(s, "lab:"):
		spec, err := lab.ParseSpec(strings.TrimPrefix(s, "lab:"))
		if err != nil {
			return Target{}, fault.WithKind(fault.Usage, err)
		}
		return Target{Kind: Lab, Text: s, Spec: spec}, nil
	case strings.HasPrefix(s, "exec:"):
		words := strings.Fields(strings.TrimPrefix(s, "exec:"))
		if len(words) < 2 {
			return Target{}, fault.WithHint(fault.Usagef("%q names no command", s),
				"write the address of the far end and the command that starts its agent:\nexec:10.0.0.2 ip netns exec b linerate agent")
		}
		return Target{Kind: Exec, Text: s, Addr: words[0], Argv: words[1:]}, nil
	case strings.HasPrefix(s, "@"):
		return parseLinkAt(s, env.Getenv)
	case strings.HasPrefix(s, "linerate://"):
		t, err := parseLink(s)
		if t.Link.Secret != "" {
			t.Warning = secretShown
		}
		return t, err
	case strings.HasPrefix(s, "ssh://"), strings.Contains(s, "@") && !strings.Contains(s, "://"):
		return parseSSH(s)
	case strings.Contains(s, "://"):
		scheme, host, _ := strings.Cut(s, "://")
		err := fault.Usagef("no way to reach %s:// hosts", scheme)
		var like []string
		for _, p := range env.AllPrograms() {
			if strings.TrimRight(p.Of(), "0123456789") == scheme && p.New != nil {
				like = lists.Once(like, p.Of()+"://"+host)
			}
		}
		if len(like) > 0 {
			return Target{}, fault.WithHint(err, "did you mean %s?", strings.Join(like, " or "))
		}
		return Target{}, fault.WithHint(err, "start linerate serve on that host and use the link that it prints")
	default:
		return parseHostPort(s)
	}
}

// Pair parses the texts of both ends; an empty near end is this machine.
func Pair(nearText, farText string, env app.Env) (near, far Target, err error) {
	if far, err = Parse(farText, env); err != nil {
		return near, far, err
	}
	if nearText == "" || nearText == app.ThisMachine {
		return Target{Kind: Here, Text: app.ThisMachine}, far, nil
	}
	if far.Kind == Lab {
		return near, far, fault.WithHint(fault.Usagef("a lab has both ends of its own"), "leave out --from")
	}
	if near, err = Parse(nearText, env); err != nil {
		return near, far, err
	}
	if near.Kind == Lab {
		return near, far, fault.Usagef("a lab is written as the far HOST alone")
	}
	if near.Kind == Foreign || far.Kind == Foreign {
		return near, far, fault.WithHint(fault.Usagef("%s has no agent to be steered from elsewhere", far), "leave out --from, or start linerate on that host")
	}
	return near, far, nil
}

// parseLink parses a join link as linerate serve prints it.
func parseLink(s string) (Target, error) {
	link, err := tls.ParseLink(s)
	if err == nil && link.Pin == "" {
		host := hostOf(link.Addr)
		return Target{}, fault.WithHint(fault.Usagef("linerate://%s: %w", host, tls.ErrNoPin),
			"use the whole link that linerate serve prints there; a server that was started with --open is named alone: %s", host)
	}
	if err != nil {
		return Target{}, fault.WithKind(fault.Usage, fmt.Errorf("%s: %w", Redact(s), err))
	}
	return Target{Kind: Serve, Link: link, Text: tls.Link{Addr: link.Addr, Pin: link.Pin}.String()}, nil
}

// secretShown warns about a link with a secret given as an argument.
const secretShown = "the secret of this link is on the command line, where every user of this machine can read it: " +
	"put the link into a file and write @FILE, or into $" + linkVariable + " and write @"

// linkVariable is the environment variable that "@" alone stands for.
const linkVariable = "LINERATE_LINK"

// longestLink bounds a file with a link, in bytes.
const longestLink = 4096

// parseLinkAt reads the join link in a file, @FILE, or in $LINERATE_LINK, @. This keeps its
// secret off the command line, which every user of a host can read.
func parseLinkAt(s string, getenv func(string) string) (Target, error) {
	file := strings.TrimPrefix(s, "@")
	if file == "" {
		t, err := parseLinkText("$"+linkVariable, getenv(linkVariable))
		return t, fault.WithHint(err, "set %s to the link that linerate serve printed, or name a file that holds it: @FILE", linkVariable)
	}
	f, err := os.Open(file)
	if err != nil {
		return Target{}, fault.New(fault.Usage, err, "@FILE names a file that holds a join link; a user of an ssh host is written user@host")
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, longestLink))
	if err != nil {
		return Target{}, fault.WithKind(fault.Usage, err)
	}
	t, err := parseLinkText(file, string(text))
	if info, serr := f.Stat(); err == nil && serr == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		t.Warning = fmt.Sprintf("%s holds a secret, and others may read it: chmod 600 %[1]s", file)
	}
	return t, err
}

// parseLinkText parses the link found in place. The error does not quote the text, which may
// be another secret.
func parseLinkText(place, text string) (Target, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "linerate://") || strings.ContainsAny(text, " \t\r\n") {
		return Target{}, fault.Usagef("%s holds no join link: one looks like linerate://PIN.SECRET@HOST:5299", place)
	}
	return parseLink(text)
}

// parseHostPort parses "host", "host:port" and addresses as a server without a link.
func parseHostPort(s string) (Target, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.Trim(s, "[]"), tls.DefaultPort
	}
	if host == "" || strings.ContainsAny(host, " /,=") {
		return Target{}, fault.WithHint(fault.Usagef("%q is not a host", s), "write user@host, a join link, lab:... or exec:...; see linerate --help")
	}
	if host != plain.Line(host) || strings.HasPrefix(host, "-") {
		return Target{}, fault.Usagef("%q is not a host", s)
	}
	if err := checkPort(s, port); err != nil {
		return Target{}, err
	}
	// The address and port as typed are the key to remember the server by; another port is
	// another server.
	named := strings.ToLower(host)
	if port != tls.DefaultPort {
		named = net.JoinHostPort(named, port)
	}
	return Target{Kind: Serve, Text: s, Named: named, Link: tls.Link{Addr: net.JoinHostPort(host, port)}}, nil
}

// checkPort returns an error if the port of address s is not a number that a port can have.
func checkPort(s, port string) error {
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fault.Usagef("%s: %s is not a port: they go from 1 to 65535", s, port)
	}
	return nil
}

// Redact removes the secret of a join link from text that is stored or shown.
func Redact(s string) string {
	if !strings.HasPrefix(s, "linerate://") {
		return s
	}
	link, err := tls.ParseLink(s)
	if err != nil {
		return "linerate://..."
	}
	if link.Secret != "" {
		link.Secret = "SECRET"
	}
	return link.String()
}

// RedactAll removes secrets from an argument vector.
func RedactAll(argv []string) []string {
	out := make([]string, len(argv))
	for i, s := range argv {
		if before, link, ok := strings.Cut(s, "linerate://"); ok { // also behind --far=
			s = before + Redact("linerate://"+link)
		}
		out[i] = plain.Databases(s)
	}
	return out
}

func (t Target) String() string {
	if t.Kind == Here {
		return app.ThisMachine
	}
	return fmt.Sprint(t.Text)
}
