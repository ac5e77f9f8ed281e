package ssh_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

func bannerFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "banner")
	must.Do(t, os.WriteFile(file, []byte("*** Authorized use only ***\n"), 0o644))
	return file
}

// overwrite replaces words of a file, which must be there.
func overwrite(t *testing.T, file, old, with string) {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	must.Need(t, strings.Contains(string(b), old), "no %q in %s", old, file)
	must.Do(t, os.WriteFile(file, []byte(strings.Replace(string(b), old, with, 1)), 0o600))
}
