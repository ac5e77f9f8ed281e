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

// sized gives a terminal a size, as one that people look at has.
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

// modes are how the terminal reads keys and writes lines.
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

// draw is what the terminal does with b. A program writes only the cells that change, so
// what is to be read stands on the screen and not in what it wrote: "preparing" becomes
// "measuring" by its first letters.
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

// shows waits until a person sees words on the terminal.
func (tt *terminal) shows(t testing.TB, words string) {
	t.Helper()
	eventually(t, patience, "the terminal to say "+words, func() bool { return strings.Contains(tt.screen.String(), words) })
}

// The alternate screen of a terminal, which a program takes and gives back (xterm, DECSET
// 1049).
const (
	takesScreen = "\x1b[?1049h"
	givesScreen = "\x1b[?1049l"
)

// watchedRun is an experiment in a lab on a terminal with a person before it.
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

// TestLiveScreen: a person sees how an experiment goes on, pauses it and goes on, in a
// terminal that changes its size, and stops it by Ctrl-C: hosts are undone, data kept,
// the terminal is as it was, and the report stays on it.
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
	now := tt.modes(t)
	must.True(t, now == before, "the terminal is %+v, and was %+v", now, before)
}

// TestLiveScreenQ: q is Ctrl-C, and SIGTERM too gives the terminal back.
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
			now := tt.modes(t)
			must.True(t, now == before, "the terminal is %+v, and was %+v", now, before)
		})
	}
}

// TestLiveScreenEnds: a test that ends by itself leaves its report on a terminal that is
// as it was, and NO_COLOR has it without colours.
func TestLiveScreenEnds(t *testing.T) {
	t.Parallel()
	tt, before := onScreen(t, command(t, "test", "lab:rate=50mbit,rtt=4ms", "-t", "200ms", "--omit", "0s"), "NO_COLOR=1")
	r := tt.wait(t, patience)
	must.True(t, r.code == 0, "exit code %d\n%s", r.code, tt.shown.String())
	tt.shows(t, "see this again")
	text := tt.shown.String()
	during, after, _ := strings.Cut(text, givesScreen)
	must.True(t, strings.Contains(during, takesScreen) && strings.Contains(after, "latency"), "%q", text)
	m := regexp.MustCompile("\x1b\\[[0-9;]*3[0-9][0-9;]*m").FindString(text)
	must.True(t, m == "", "a colour, %q, in spite of NO_COLOR", m)
	now := tt.modes(t)
	must.True(t, now == before, "the terminal is %+v, and was %+v", now, before)
}

// TestLiveScreenNot: lines as ever where nobody can watch a screen, or does not want it.
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
			now := tt.modes(t)
			must.True(t, now == before, "the terminal is %+v, and was %+v", now, before)
		})
	}
}
