//go:build !windows

package opener

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// script installs a program with this text in place of the system's opener.
func script(t *testing.T, text string) {
	t.Helper()
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, opener("")[0]), []byte("#!/bin/sh\n"+text), 0o700))
	t.Setenv("PATH", folder+":/bin:/usr/bin")
}

func screen(name string) string { return map[string]string{"DISPLAY": ":0"}[name] }

// TestOpensTheFile: the opener gets the whole path as one word, whatever it contains.
func TestOpensTheFile(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	script(t, `printf '%s\n' "$#" "$1" > '`+told+"'\n")
	name := "a b;$(touch x)' -.html"
	t.Chdir(t.TempDir())
	must.Do(t, Open(t.Context(), name, screen))
	count, path, _ := strings.Cut(strings.TrimSuffix(string(must.Get(os.ReadFile(told))(t)), "\n"), "\n")
	must.True(t, count == "1" && filepath.IsAbs(path) && filepath.Base(path) == name, "%s arguments, the first is %q", count, path)
}

// TestSaysWhyNot: a missing opener, a missing screen and a failing opener are different errors.
func TestSaysWhyNot(t *testing.T) {
	script(t, "exit 3\n")
	err := Open(t.Context(), "x.html", screen)
	must.True(t, err != nil && !errors.Is(err, ErrNone), "an opener that fails: %v", err)
	t.Setenv("PATH", t.TempDir())
	err = Open(t.Context(), "x.html", screen)
	must.True(t, errors.Is(err, ErrNone) && strings.Contains(err.Error(), "is not installed"), "no opener: %v", err)
	must.SkipIf(t, blind(func(string) string { return "" }) == "", "this system has a screen whatever the environment says")
	script(t, "exit 0\n")
	err = Open(t.Context(), "x.html", func(string) string { return "" })
	must.True(t, errors.Is(err, ErrNone) && strings.Contains(err.Error(), "no screen"), "no screen: %v", err)
}

// TestDoesNotWaitForAViewer: an opener that stays open does not block the command.
func TestDoesNotWaitForAViewer(t *testing.T) {
	script(t, "exec sleep 4\n")
	must.OK(t, Open(t.Context(), "x.html", screen))
}

// TestPage: the pager gets the text, with the user's own command, and with git's settings of less
// unless others are set; leaving it early is not an error, but a missing pager is.
func TestPage(t *testing.T) {
	told := filepath.Join(t.TempDir(), "a b")
	env := func(pager, less string) func(string) string {
		return func(name string) string { return map[string]string{"PAGER": pager, "LESS": less}[name] }
	}
	t.Setenv("LESS", "S") // set in the pager's environment and in getenv
	must.Do(t, Page(t.Context(), "text\n", io.Discard, io.Discard, env("cat > '"+told+"'; echo $LESS >> '"+told+"'", "S")))
	b, _ := os.ReadFile(told)
	must.True(t, string(b) == "text\nS\n", "%q", b)
	var out strings.Builder
	err := Page(t.Context(), "text\n", &out, io.Discard, env("cat; echo $LESS $LV", ""))
	must.True(t, err == nil && out.String() == "text\nFRX -c\n", "%q, %v", out.String(), err)
	must.OK(t, Page(t.Context(), strings.Repeat("a line\n", 1<<16), io.Discard, io.Discard, env("head -n 1", "")), "a pager that is left early")
	for _, pager := range []string{"cat", "no-such-pager -x"} {
		must.Is(t, Page(t.Context(), "text\n", io.Discard, io.Discard, env(pager, "")), ErrNone, "PAGER=%s", pager)
	}
	t.Setenv("PATH", t.TempDir())
	err = Page(t.Context(), "text\n", io.Discard, io.Discard, env("", ""))
	must.True(t, errors.Is(err, ErrNone) && strings.Contains(err.Error(), "less is not installed"), "no less: %v", err)
}
