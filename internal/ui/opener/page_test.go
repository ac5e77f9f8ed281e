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

// TestPage: the text goes to the pager as its user wrote it, with git's settings of less
// unless there are others; leaving it early is no error, and one that is not there is.
func TestPage(t *testing.T) {
	told := filepath.Join(t.TempDir(), "a b")
	env := func(pager, less string) func(string) string {
		return func(name string) string { return map[string]string{"PAGER": pager, "LESS": less}[name] }
	}
	t.Setenv("LESS", "S") // as the environment of the pager has it, and getenv says
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
	if err := Page(t.Context(), "text\n", io.Discard, io.Discard, env("", "")); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "less is not installed") {
		t.Errorf("no less: %v", err)
	}
}
