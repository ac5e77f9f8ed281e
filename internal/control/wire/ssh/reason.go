package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"unicode"

	"linerate/internal/fault"
)

// sshFailed is the exit status of ssh for an error of its own (ssh(1), EXIT STATUS).
const sshFailed = 255

// shownWords is how many characters of another program's output an error shows.
const shownWords = 600

// reasons are messages of OpenSSH's client (sshconnect.c, sshconnect2.c, misc.c of version 9.2),
// their meanings, and what to do. DEST is the host as passed to ssh, HOST its name. The first
// match counts.
var reasons = [...]struct{ words, means, hint string }{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is not the one that is known: this may be another host, or an attacker in between",
		"if you know why the key changed, remove the old one with: ssh-keygen -R HOST"},
	{"Host key verification failed", "ssh does not know its host key",
		"compare the key once by hand: ssh DEST true"},
	{"Too many authentication failures", "it gave up after too many keys", "name the right one for this host in ssh's configuration (IdentityFile, IdentitiesOnly yes)"},
	{"Permission denied (", "it does not let this user in",
		"try: ssh DEST true; without a terminal only keys work (ssh-copy-id DEST)"},
	{"Could not resolve hostname", "its name is not known", ""},
	{"Connection refused", "no ssh server answers there", "another port is written ssh://HOST:PORT; without ssh, start linerate serve there"},
	{"timed out", "no answer in time", ""},
	{"No route to host", "no route to it", ""},
	{"Network is unreachable", "its network cannot be reached from here", ""},
	{"kex_exchange_identification", "its ssh server hung up at once", "the server may limit who may connect, or how often"},
	{"Bad configuration option", "ssh does not understand its configuration", ""},
	{"Bad owner or permissions", "ssh does not trust its configuration", ""},
}

// explain turns the messages of a failed ssh into an error.
func explain(t Target, words string) error {
	said := oneLine(words)
	fill := strings.NewReplacer("DEST", sshWords(t), "HOST", t.Host)
	for _, r := range reasons {
		if strings.Contains(words, r.words) {
			return fault.New(fault.Unreachable, fmt.Errorf("reach %s over ssh: %s: %s", t, r.means, said), "%s", fill.Replace(r.hint))
		}
	}
	said = cmp.Or(said, "ssh gives no reason (its LogLevel may be quiet)")
	return fault.New(fault.Unreachable, fmt.Errorf("reach %s over ssh: %s", t, said), "%s", fill.Replace("try: ssh DEST true"))
}

// sshWords returns the target as a person would type it for ssh.
func sshWords(t Target) string {
	if t.Port > 0 {
		return fmt.Sprintf("-p %d %s", t.Port, t.destination())
	}
	return t.destination()
}

// failed says why ssh ended before the marker; noise is the output until then.
func (s *Shell) failed(noise []byte) error {
	why := s.peer.Why()
	exit, ok := errors.AsType[*exec.ExitError](why)
	switch {
	case !ok:
		return s.strange(noise)
	case exit.ExitCode() == sshFailed && len(noise) == 0:
		return explain(s.target, s.stderr.String())
	case exit.ExitCode() < 0 && interrupted(exit):
		return fmt.Errorf("reach %s over ssh: %w", s.target, context.Canceled)
	case exit.ExitCode() < 0:
		return fault.WithKind(fault.Unreachable, fmt.Errorf("reach %s over ssh: ssh was ended: %w", s.target, why))
	}
	return s.strange(noise)
}

// strange returns the error for a host where ssh reaches something other than a shell.
func (s *Shell) strange(noise []byte) error {
	words := cmp.Or(oneLine(string(noise)+"\n"+s.stderr.String()), "it said nothing")
	return fault.New(fault.Unreachable, fmt.Errorf("reach %s over ssh: no shell answered there: %s", s.target, words),
		"linerate needs a login that may run commands: try: ssh %s echo works", sshWords(s.target))
}

// oneLine shortens the end of a program's output to fit into an error, without frames, empty
// lines and terminal control characters.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, line))
		if strings.Trim(line, "@#*=-_ ") != "" {
			lines = append(lines, strings.Trim(line, "@ "))
		}
	}
	all := []rune(strings.Join(lines, "; "))
	if extra := len(all) - shownWords; extra > 0 {
		return "..." + string(all[extra:])
	}
	return string(all)
}
