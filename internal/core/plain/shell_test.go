package plain

import (
	"os/exec"
	"runtime"
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

// TestShellLine has a real shell read the line back.
func TestShellLine(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no POSIX shell")
	}
	words := []string{"linerate", "run", "a b", "it's", "$HOME", "near.x=1,2", "~", "#1", "", "a;b", "far.tcp.recv_buffer_max=64KiB", "back\\slash", "^", "-n"}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+ShellLine(words)).Output()
	must.Do(t, err)
	want := ""
	for _, w := range words {
		want += w + "\n"
	}
	must.Equal(t, string(out), want)
}
