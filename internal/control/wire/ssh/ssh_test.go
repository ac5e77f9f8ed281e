package ssh

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]Target{
		"root@nas":                  {User: "root", Host: "nas"},
		"root@10.0.0.2":             {User: "root", Host: "10.0.0.2"},
		"root@fe80::1%eth0":         {User: "root", Host: "fe80::1%eth0"},
		"root@[fe80::1]":            {User: "root", Host: "fe80::1"},
		"me@firm.example@gate":      {User: "me@firm.example", Host: "gate"},
		"ssh://nas":                 {Host: "nas"},
		"ssh://nas/":                {Host: "nas"},
		"ssh://root@nas:2222":       {User: "root", Host: "nas", Port: 2222},
		"ssh://root@[2001:db8::1]:": {User: "root", Host: "2001:db8::1"},
		"ssh://0@::1":               {User: "0", Host: "::1"},
	} {
		must.Equal(t, must.Get(ParseTarget(in))(t), want, "%s", in)
	}
	for _, in := range []string{
		"", "nas", "@nas", "root@", "root@nas:22", "root@-oProxyCommand=id", "-l@nas", "a b@nas", "root@n as", "root@nas;id",
		"root@$(id)", "root@`id`", "root@nas\n", "root@nas\x1b[m", "ssh://", "ssh://-v", "ssh://root:secret@nas", "ssh://nas/path",
		"ssh://nas?x=y", "ssh://nas:0", "ssh://nas:65536", "ssh://nas:x", "ssh://a%20b@nas", "root@a:b:c",
	} {
		got, err := ParseTarget(in)
		must.True(t, errors.Is(err, ErrTarget) && !strings.Contains(err.Error(), "secret"), "%q: %+v, %v", in, got, err)
	}
}

// FuzzTarget: an accepted host is no option, has no shell characters, and parses back to the
// same.
func FuzzTarget(f *testing.F) {
	f.Add("root@nas")
	f.Add("ssh://root@[::1]:22")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err != nil {
			return
		}
		must.Need(t, !strings.HasPrefix(got.destination(), "-") && !strings.ContainsAny(got.destination(), " \n'\"$`;&|<>\\"), "%q is %q", s, got.destination())
		again, err := ParseTarget(got.String())
		must.Need(t, got.User == "" || err == nil && again == got, "%q: %+v is written %q: %+v, %v", s, got, got, again, err)
	})
}

func TestParseConfig(t *testing.T) {
	c := parseConfig("user me\nhostname 192.0.2.7\nproxyjump me@gate:22\nremotecommand tmux\nport 22\n")
	must.True(t, c == (config{hostName: "192.0.2.7", port: "22", jump: "me@gate:22", remoteCommand: true}) && c.indirect() == "me@gate:22 (ProxyJump)", "%+v", c)
	must.Equal(t, c.direct(), "", "where ssh connects to by itself")
	c = parseConfig("hostname nas\nport 2222\nproxycommand none\nproxyjump none\n")
	must.Equal(t, c.direct(), "nas:2222")
	must.True(t, c == (config{hostName: "nas", port: "2222"}) && c.indirect() == "", "%+v", c)
	c = parseConfig("proxycommand nc %h %p\n")
	must.True(t, c.indirect() == "a ProxyCommand", "%+v", c)
}

// FuzzConfig: a value stays on one line.
func FuzzConfig(f *testing.F) {
	f.Add("hostname nas\n")
	f.Fuzz(func(t *testing.T, s string) {
		c := parseConfig(s)
		must.Need(t, !strings.ContainsAny(c.hostName+c.indirect(), "\n"), "%+v", c)
	})
}

// FuzzWords: a far host's output contains no terminal control characters.
func FuzzWords(f *testing.F) {
	f.Add("@@@@\n@ WARNING @\n\x1b[2J bad\r\nmore")
	f.Fuzz(func(t *testing.T, s string) {
		got := oneLine(s)
		must.Need(t, !strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) && len([]rune(got)) <= shownWords+3, "%q", got)
	})
}

// TestForwarding: ssh forwards nothing, or the one port of --through ssh between the loopback
// addresses of both hosts.
func TestForwarding(t *testing.T) {
	for f, want := range map[Forward]string{
		{}:                        "-o ClearAllForwardings=yes",
		{Here: 4000, There: 5000}: "-o GatewayPorts=no -L 127.0.0.1:4000:127.0.0.1:5000",
	} {
		line := strings.Join(arguments(Target{Host: "nas"}, config{}, false, f), " ")
		must.Contain(t, line, want)
		must.True(t, strings.Count(line, " -L ") <= 1 && !strings.Contains(line, "-R") && !strings.Contains(line, "-D") && strings.Contains(line, "-T -a -x"), "%s", line)
	}
}

// TestLaunch: every shell understands the command line. The quoted part for a POSIX shell has no
// character that is special to csh, fish or cmd.exe, and the marker is nowhere whole.
func TestLaunch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := rapid.StringMatching(`[A-Z2-7]{26}`).Draw(t, "mark")
		line := launch(mark)
		must.Need(t, !strings.Contains(line, mark) && !strings.ContainsAny(line, "!\\\n%^`"), "%v", line)
		words := strings.Split(line, "'")
		must.Need(t, len(words) == 5 && words[0] == "exec sh -c " && words[2] == " ; echo ", "quotes: %q", words)
		must.Need(t, strings.Count(words[1], `"`)%2 == 0 && len(line) <= 8191,
			"%d bytes: %s", len(line), words[1])
		// cmd.exe runs the text between || and & outside of double quotes, a login
		// PowerShell the text after the quotes: both are the same.
		inner := strings.TrimSuffix(strings.TrimPrefix(words[3], "|| "), " & rem ")
		must.Need(t, inner == strings.TrimPrefix(words[4], "; ") && !strings.ContainsAny(inner, `&|<>()"`), "%q, %q", inner, words[4])
		code := must.Get(base64.StdEncoding.DecodeString(inner[strings.LastIndexByte(inner, ' ')+1:]))(t)
		var units []uint16
		for i := 0; i < len(code); i += 2 {
			units = append(units, uint16(code[i])|uint16(code[i+1])<<8)
		}
		got := string(utf16.Decode(units))
		must.Need(t, got == powerShellLoop(mark) && !strings.Contains(got, mark), "%v", got)
	})
}
