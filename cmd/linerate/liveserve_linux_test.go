package main

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// watchedServer is a server on loopback, on a terminal of 80 columns with a person
// before it, and the addresses that it says: its link, and where iperf3 clients go.
func watchedServer(t testing.TB, state string, args ...string) (tt *terminal, before unix.Termios) {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--state", state, "--iperf3=127.0.0.1:0"}, args...)
	return onScreen(t, command(t, args...), "NO_COLOR=1")
}

// said waits for what matches re on the terminal, and returns its first group.
func (tt *terminal) said(t testing.TB, re string) string {
	t.Helper()
	var found []string
	defer func() {
		if found == nil {
			t.Logf("the terminal said: %q", tt.shown.String())
		}
	}()
	eventually(t, patience, "the terminal to say "+re, func() bool {
		found = regexp.MustCompile(re).FindStringSubmatch(tt.shown.String())
		return found != nil
	})
	return found[1]
}

const (
	saysLink   = `linerate test '(linerate://[^']+)'`
	saysIperf3 = `answering iperf3 clients on (127\.0\.0\.1:[0-9]+)`
)

// ends demands that a server on a terminal has ended in good order and left it as it
// was, with what it said.
func (tt *terminal) ends(t testing.TB, before unix.Termios, want ...string) {
	t.Helper()
	tt.wait(t, patience).ends(t, 0)
	tt.shows(t, "server stopped")
	text := tt.shown.String()
	// A line that came before the first visitor had brought the screen stands above it.
	above, during, _ := strings.Cut(text, takesScreen)
	_, after, gave := strings.Cut(during, givesScreen)
	must.Need(t, gave, "does not give the screen back: %q", text)
	for _, w := range append(want, "server stopped") {
		must.Contain(t, above+after, w)
	}
	now := tt.modes(t)
	must.True(t, now == before, "the terminal is %+v, and was %+v", now, before)
}

// TestServeScreen: the owner of a server takes its link from the terminal, and sees who
// comes, what each measures and how fast, in linerate's protocol and in iperf3's, what
// is given away, and who was turned away; the link is shown again by a key.
func TestServeScreen(t *testing.T) {
	t.Parallel()
	iperf3, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("no iperf3 here")
	}
	tt, before := watchedServer(t, t.TempDir())
	link, addr := tt.said(t, saysLink), tt.said(t, saysIperf3)
	must.True(t, !strings.Contains(tt.shown.String(), takesScreen), "takes the screen before the link can be copied")
	secret, _, _ := strings.Cut(link, "@")
	_, secret, _ = strings.Cut(secret, ".")

	own := start(t, command(t, "test", link, "-t", "10m", "--to", "--quiet", "--db", ":memory:"))
	tt.shows(t, "who has its join link may measure: l shows it")
	tt.shows(t, "127.0.0.1, key default  linerate")
	tt.shows(t, "TCP with probes, receives")
	tt.shows(t, "bit/s")
	tt.shows(t, "1 visitor, measuring now")
	must.True(t, !strings.Contains(tt.screen.String(), secret), "the secret stands on the screen:\n%s", tt.screen.String())

	host, port, _ := strings.Cut(addr, ":")
	foreign := start(t, exec.CommandContext(t.Context(), iperf3, "-c", host, "-p", port, "-t", "60", "-b", "50M", "-R"))
	tt.shows(t, "127.0.0.1, open  iperf3")
	tt.shows(t, "TCP, sends")
	tt.shows(t, "2 visitors, measuring now")
	tt.shows(t, "gives away")
	text := tt.screen.String()
	must.True(t, regexp.MustCompile(`sessions +2 +64`).MatchString(text) && regexp.MustCompile(`sent in 24 h +[0-9.]+ [KMG]?i?B`).MatchString(text), "what is given away is not told:\n%s", text)

	tt.types(t, "l")
	tt.shows(t, "l shows who measures")
	eventually(t, patience, "the link to stand on the terminal", func() bool {
		return strings.Contains(strings.ReplaceAll(tt.screen.String(), "\n", ""), secret)
	})
	tt.types(t, "l")
	tt.shows(t, "2 visitors, measuring now")
	must.True(t, !strings.Contains(tt.screen.String(), secret), "the secret stands on the screen:\n%s", tt.screen.String())
	tt.sized(t, 40, 24)
	tt.shows(t, "l shows the link   q stops")
	tt.sized(t, 80, 24)

	for _, p := range []*process{own, foreign} {
		p.signal(t, syscall.SIGINT)
		p.wait(t, patience)
	}
	tt.shows(t, "nobody is here now")
	tt.shows(t, "done")
	wrong := strings.Replace(link, secret, strings.Repeat("A", len(secret)), 1)
	r := run(t, command(t, "test", wrong, "-t", "1s", "--to", "--quiet", "--db", ":memory:"))
	must.True(t, r.code != 0, "a wrong secret is let in")
	tt.shows(t, "turned away: 1")
	tt.types(t, "q")
	tt.ends(t, before, "session from 127.0.0.1 (key default) begins", "refused 127.0.0.1", "iperf3: 127.0.0.1 done")
	m := regexp.MustCompile("\x1b\\[[0-9;]*3[0-9][0-9;]*m").FindString(tt.shown.String())
	must.True(t, m == "", "a colour, %q, in spite of NO_COLOR", m)
}

// TestServeScreenEnds: a server whose link was printed at an earlier start has its screen
// at once, and Ctrl-C and SIGTERM too give the terminal back, also while the link is shown.
func TestServeScreenEnds(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	first := start(t, command(t, "serve", "--listen", "127.0.0.1:0", "--state", state))
	eventually(t, patience, "the first start to print the link", func() bool { return strings.Contains(first.said(), "linerate test '") })
	first.signal(t, syscall.SIGTERM)
	first.wait(t, patience)
	for name, stop := range map[string]func(*terminal){
		"q":       func(tt *terminal) { tt.types(t, "q") },
		"Ctrl-C":  func(tt *terminal) { tt.types(t, "\x03") },
		"SIGTERM": func(tt *terminal) { tt.signal(t, syscall.SIGTERM) },
		"l, then q": func(tt *terminal) {
			tt.types(t, "l")
			tt.shows(t, "l shows who measures")
			tt.types(t, "q")
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt, before := watchedServer(t, state)
			tt.shows(t, "nobody is here now")
			stop(tt)
			tt.ends(t, before)
			s := tt.screen.String()
			must.True(t, !strings.Contains(s, "l shows who measures"), "a row of the screen stays:\n%s", s)
		})
	}
}

// TestServeScreenNot: lines as ever where nobody can watch a screen, or does not want it.
func TestServeScreenNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ flag, env string }{
		"--lines": {"--lines", ""}, "--quiet": {"--quiet", ""}, "--json": {"--json", ""}, "TERM=dumb": {"--lines=false", "TERM=dumb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			tt, before := onScreen(t, command(t, "serve", "--open", "--announce=false", "--listen", "127.0.0.1:0", "--state", state, c.flag), c.env)
			link := tt.said(t, `(linerate://[^' "]+)`)
			link = strings.Join(strings.Fields(link), "")
			run(t, command(t, "test", link, "-t", "1s", "--omit", "0s", "--idle", "0s", "--to", "--quiet", "--db", ":memory:")).succeeds(t)
			if c.flag == "--lines" {
				tt.said(t, `(session from 127\.0\.0\.1 ended)`)
				must.True(t, !strings.Contains(tt.shown.String(), "?[K"), "%q", tt.shown.String())
			}
			tt.signal(t, syscall.SIGTERM)
			r := tt.wait(t, patience)
			must.True(t, r.code == 0 && !strings.Contains(r.out, takesScreen), "exit code %d\n%q", r.code, r.out)
			now := tt.modes(t)
			must.True(t, now == before, "the terminal is %+v, and was %+v", now, before)
		})
	}
}
