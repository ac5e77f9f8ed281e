//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/host/files"
	"linerate/internal/must"
)

// TestPrograms runs a program over a copy: it sees the parts, its output files come back, and
// the original tree stays as it was.
func TestPrograms(t *testing.T) {
	root := fstest.MapFS{"etc/a/one": {Data: []byte("1"), Mode: 0o600}, "etc/b": {Data: []byte("2"), Mode: 0o644}}
	ask := files.Programs("")
	a, err := ask(t.Context(), root, files.Question{
		Programs: []string{"/no/such", "/bin/sh"}, Parts: []string{"etc/a", "etc/none"}, Answers: []string{"run", "none"},
		Args: []string{"-c", "cat {copy}/etc/a/one {copy}/etc/b; mkdir {copy}/run; echo made >{copy}/run/new; echo {copy}/etc/a/one; exit 3"},
	})
	must.True(t, err == nil && a.Program == "/bin/sh" && a.Code == 3 && strings.HasPrefix(a.Text, "1") && strings.Contains(a.Text, "/etc/b: ") && strings.HasSuffix(a.Text, "\n/etc/a/one\n"), "%+v, %v", a, err)
	must.True(t, len(a.Files) == 1 && a.Files[0].Path == "/run/new" && string(a.Files[0].Content) == "made\n", "%+v", a.Files)
	must.Is(t, must.Err(ask(t.Context(), root, files.Question{Programs: []string{"/no/such"}})), errors.ErrUnsupported, "without a program")
	dir := t.TempDir()
	must.Do(t, os.Symlink("/dev/null", filepath.Join(dir, "masked.conf")))
	a, err = ask(t.Context(), os.DirFS(dir), files.Question{
		Programs: []string{"/bin/sh"}, Parts: []string{"."}, Args: []string{"-c", "wc -c < {copy}/masked.conf"},
	})
	must.True(t, err == nil && strings.TrimSpace(a.Text) == "0", "a mask is not in the copy: %+v, %v", a, err)
	must.Equal(t, len(root), 2, "the tree was changed")
}
