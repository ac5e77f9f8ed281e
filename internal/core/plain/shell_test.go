package plain

import (
	"testing"

	"linerate/internal/must"
)

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"root@nas": "root@nas", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "linerate://nas:5299/?pin=x": "'linerate://nas:5299/?pin=x'", "x;y": "'x;y'", "a\nb": "'a\nb'",
	} {
		must.Equal(t, ShellWord(s), want, "%q", s)
	}
}
