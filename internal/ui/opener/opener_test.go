//go:build !windows

package opener

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

// script puts a program of that text where the opener of this system is looked for.
func script(t *testing.T, text string) {
	t.Helper()
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, opener("")[0]), []byte("#!/bin/sh\n"+text), 0o700))
	t.Setenv("PATH", folder+":/bin:/usr/bin")
}

func screen(name string) string {
	return map[string]string{"DISPLAY": ":0"}[name]
}

// TestOpensTheFile: the opener gets the whole path as one word, whatever is in it.
func TestOpensTheFile(t *testing.T) {
	told := filepath.Join(t.TempDir(), "told")
	script(t, `printf '%s\n' "$#" "$1" > '`+told+"'\n")
	name := "a b;$(touch x)' -.html"
	t.Chdir(t.TempDir())
	must.Do(t, Open(t.Context(), name, screen))
	got := must.Get(os.ReadFile(told))(t)
	count, path, _ := strings.Cut(strings.TrimSuffix(string(got), "\n"), "\n")
	must.True(t, count == "1" && filepath.IsAbs(path) && filepath.Base(path) == name, "%s arguments, the first is %q", count, path)
}

// TestSaysWhyNot: no opener, no screen and an opener that fails are told apart.
func TestSaysWhyNot(t *testing.T) {
	script(t, "exit 3\n")
	err := Open(t.Context(), "x.html", screen)
	must.True(t, err != nil && !errors.Is(err, ErrNone), "an opener that fails: %v", err)
	t.Setenv("PATH", t.TempDir())
	if err := Open(t.Context(), "x.html", screen); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "is not installed") {
		t.Errorf("no opener: %v", err)
	}
	if blind(func(string) string { return "" }) == "" {
		t.Skip("this system has a screen whatever the environment says")
	}
	script(t, "exit 0\n")
	if err := Open(t.Context(), "x.html", func(string) string { return "" }); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "no screen") {
		t.Errorf("no screen: %v", err)
	}
}

// TestDoesNotWaitForAViewer: an opener that stays open does not hold the command.
func TestDoesNotWaitForAViewer(t *testing.T) {
	script(t, "exec sleep 4\n")
	must.OK(t, Open(t.Context(), "x.html", screen))
}
