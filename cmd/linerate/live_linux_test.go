package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// sized gives a terminal a realistic size.
func (tt *terminal) sized(t testing.TB, columns, rows uint16) {
	t.Helper()
	tt.screen.Resize(int(columns), int(rows))
	control(t, tt.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	})
}

func control(t testing.TB, f *os.File, do func(fd int) error) {
	t.Helper()
	raw := must.Get(f.SyscallConn())(t)
	var doErr error
	err := raw.Control(func(fd uintptr) { doErr = do(int(fd)) })
	must.Need(t, err == nil && doErr == nil, "%v %v", err, doErr)
}

// modes returns the terminal's input and output modes.
func (tt *terminal) modes(t testing.TB) unix.Termios {
	t.Helper()
	var modes unix.Termios
	control(t, tt.master, func(fd int) error {
		got, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			modes = *got
		}
		return err
	})
	return modes
}

func (tt *terminal) types(t testing.TB, keys string) {
	t.Helper()
	must.Get(tt.master.WriteString(keys))(t)
}

// draw draws b as the terminal does. A program writes only the cells that change, so the text
// is on the screen and not in the output: "preparing" becomes "measuring" by its first letters.
func (tt *terminal) draw(b []byte) {
	b = append(tt.held, b...)
	end := len(b)
	for i := max(end-utf8.UTFMax+1, 0); i < end; i++ {
		if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
			end = i // the rest of a character comes with the next read
		}
	}
	_, _ = tt.screen.Write(b[:end])
	tt.held = bytes.Clone(b[end:])
}

// shows waits until words are visible on the terminal.
func (tt *terminal) shows(t testing.TB, words string) {
	t.Helper()
	must.Until(t, "the terminal to say "+words, func() bool { return strings.Contains(tt.screen.String(), words) })
}

// The alternate screen of a terminal, which a program takes and gives back (xterm, DECSET 1049).
const (
	takesScreen = "\x1b[?1049h"
	givesScreen = "\x1b[?1049l"
)

// watchedRun starts an experiment in a lab on a terminal that a person watches.
func watchedRun(t testing.TB, env ...string) (*terminal, unix.Termios) {
	t.Helper()
	cmd := command(t, "run", "lab:rate=50mbit,rtt=4ms", "--factor", "window=32KiB,256KiB", "--blocks", "12", "-t", "1s", "--omit", "100ms", "--settle", "0s")
	return onScreen(t, cmd, env...)
}

// onScreen starts cmd on a terminal of 80 columns.
func onScreen(t testing.TB, cmd *exec.Cmd, env ...string) (*terminal, unix.Termios) {
	t.Helper()
	cmd.Env = append(cmd.Environ(), append([]string{"TERM=xterm-256color", "LC_ALL=C.UTF-8"}, env...)...)
	var before unix.Termios
	tt := onTerminal(t, cmd, func(tt *terminal) {
		tt.sized(t, 80, 24)
		before = tt.modes(t)
	})
	return tt, before
}

// TestLiveScreen: a person watches an experiment, pauses and resumes it, in a terminal that
// changes its size, and stops it with Ctrl-C: hosts are undone, data kept, the terminal is
// restored, and shows the report.
func TestLiveScreen(t *testing.T) {
	t.Parallel()
	tt, before := watchedRun(t)
	tt.shows(t, "settings against current: 2 of 2 in play")
	tt.shows(t, "round trip")
	must.Equal(t, tt.modes(t).Lflag&unix.ICANON, 0, "keys are read a line at a time")
	if text := tt.shown.String(); strings.Count(text, takesScreen) != 1 || strings.Contains(text, givesScreen) {
		t.Errorf("does not have the screen to itself: %q", text)
	}
	tt.types(t, "p")
	tt.shows(t, "paused since")
	tt.shows(t, "both hosts are as they were")
	tt.sized(t, 40, 20)
	tt.shows(t, "p goes on   q stops")
	tt.sized(t, 80, 24)
	tt.types(t, "p")
	tt.shows(t, "preparing")
	tt.types(t, "\x03")
	r := tt.wait(t, patience)
	tt.shows(t, "linerate run --resume")
	must.Equal(t, r.code, 130, "exit code")
	text := tt.shown.String()
	_, after, gave := strings.Cut(text, givesScreen)
	must.True(t, gave && !strings.Contains(after, takesScreen), "does not give the screen back: %q", text)
	for _, want := range []string{"stopping: what was changed goes back", "goodput to far", "interrupted by the user"} {
		must.Contain(t, after, want)
	}
	must.Equal(t, tt.modes(t), before, "the terminal is")
}

// TestLiveScreenQ: q works like Ctrl-C, and SIGTERM restores the terminal too.
func TestLiveScreenQ(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*terminal){
		"q":       func(tt *terminal) { tt.types(t, "q") },
		"SIGTERM": func(tt *terminal) { tt.signal(t, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt, before := watchedRun(t)
			tt.shows(t, "measuring")
			stop(tt)
			must.Equal(t, tt.wait(t, patience).code, 130, "exit code")
			must.Contain(t, tt.shown.String(), givesScreen, "does not give the screen back")
			must.Equal(t, tt.modes(t), before, "the terminal is")
		})
	}
}

// TestLiveScreenEnds: a test that ends leaves its report on a restored terminal, and NO_COLOR
// removes the colours.
func TestLiveScreenEnds(t *testing.T) {
	t.Parallel()
	tt, before := onScreen(t, command(t, "test", "lab:rate=50mbit,rtt=4ms", "-t", "200ms", "--omit", "0s"), "NO_COLOR=1")
	tt.wait(t, patience).ends(t, 0)
	tt.shows(t, "see this again")
	text := tt.shown.String()
	during, after, _ := strings.Cut(text, givesScreen)
	must.True(t, strings.Contains(during, takesScreen) && strings.Contains(after, "latency"), "%q", text)
	must.Equal(t, regexp.MustCompile("\x1b\\[[0-9;]*3[0-9][0-9;]*m").FindString(text), "", "a colour, in spite of NO_COLOR")
	must.Equal(t, tt.modes(t), before, "the terminal is")
}

// TestLiveScreenNot: plain lines if a screen is not possible or not wanted.
func TestLiveScreenNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ flag, env string }{
		"--lines": {"--lines", ""}, "--quiet": {"--quiet", ""}, "--json": {"--json", ""}, "TERM=dumb": {"--lines=false", "TERM=dumb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt, before := onScreen(t, command(t, "test", "lab:rate=50mbit,rtt=4ms", "-t", "200ms", "--omit", "0s", "--idle", "0s", "--to", c.flag), c.env)
			r := tt.wait(t, patience)
			must.True(t, r.code == 0 && !strings.Contains(r.out, takesScreen), "exit code %d\n%q", r.code, r.out)
			must.Equal(t, tt.modes(t), before, "the terminal is")
		})
	}
}

// watchedServer starts a server on loopback, on a terminal of 80 columns that a person watches.
func watchedServer(t testing.TB, state string, args ...string) (tt *terminal, before unix.Termios) {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--state", state, "--iperf3=127.0.0.1:0"}, args...)
	return onScreen(t, command(t, args...), "NO_COLOR=1")
}

// said waits for a match of re on the terminal, and returns its first group.
func (tt *terminal) said(t testing.TB, re string) string {
	t.Helper()
	var found []string
	defer func() {
		if found == nil {
			t.Logf("the terminal said: %q", tt.shown.String())
		}
	}()
	must.Until(t, "the terminal to say "+re, func() bool {
		found = regexp.MustCompile(re).FindStringSubmatch(tt.shown.String())
		return found != nil
	})
	return found[1]
}

const (
	saysLink   = `linerate test '(linerate://[^']+)'`
	saysIperf3 = `answering iperf3 clients on (127\.0\.0\.1:[0-9]+)`
)

// ends requires that a server on a terminal has ended cleanly and restored it, with its messages.
func (tt *terminal) ends(t testing.TB, before unix.Termios, want ...string) {
	t.Helper()
	tt.wait(t, patience).ends(t, 0)
	tt.shows(t, "server stopped")
	text := tt.shown.String()
	// A line that came before the first visitor, and so before the screen, is above it.
	above, during, _ := strings.Cut(text, takesScreen)
	_, after, gave := strings.Cut(during, givesScreen)
	must.Need(t, gave, "does not give the screen back: %q", text)
	for _, w := range append(want, "server stopped") {
		must.Contain(t, above+after, w)
	}
	must.Equal(t, tt.modes(t), before, "the terminal is")
}

// TestServeScreen: the owner of a server copies its link from the terminal, and sees the
// visitors, what each measures and how fast, in linerate's protocol and in iperf3's, the
// resources in use, and the refusals; a key shows the link again.
func TestServeScreen(t *testing.T) {
	t.Parallel()
	iperf3, err := exec.LookPath("iperf3")
	must.SkipIf(t, err != nil, "no iperf3 here")
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
	must.Until(t, "the link to stand on the terminal", func() bool {
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
	tt.shows(t, "no client is here now")
	tt.shows(t, "done")
	wrong := strings.Replace(link, secret, strings.Repeat("A", len(secret)), 1)
	must.True(t, run(t, command(t, "test", wrong, "-t", "1s", "--to", "--quiet", "--db", ":memory:")).code != 0, "a wrong secret is let in")
	tt.shows(t, "turned away: 1")
	tt.types(t, "q")
	tt.ends(t, before, "session from 127.0.0.1 (key default) begins", "refused 127.0.0.1", "iperf3: 127.0.0.1 done")
	must.Equal(t, regexp.MustCompile("\x1b\\[[0-9;]*3[0-9][0-9;]*m").FindString(tt.shown.String()), "", "a colour, in spite of NO_COLOR")
}

// TestServeScreenEnds: a server whose link was printed at an earlier start has its screen at
// once; Ctrl-C and SIGTERM restore the terminal, even while the link is shown.
func TestServeScreenEnds(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	first := start(t, command(t, "serve", "--listen", "127.0.0.1:0", "--state", state))
	must.Until(t, "the first start to print the link", func() bool { return strings.Contains(first.said(), "linerate test '") })
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
			tt.shows(t, "no client is here now")
			stop(tt)
			tt.ends(t, before)
			s := tt.screen.String()
			must.True(t, !strings.Contains(s, "l shows who measures"), "a row of the screen stays:\n%s", s)
		})
	}
}

// TestServeScreenNot: plain lines if a screen is not possible or not wanted.
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
			must.Equal(t, tt.modes(t), before, "the terminal is")
		})
	}
}
