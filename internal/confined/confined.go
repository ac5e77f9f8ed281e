// Package confined runs a test in a child process with hard limits on memory and CPU time, for
// tests that feed a reader with hostile input. A reader that exceeds them ends the child, not
// the machine.
package confined

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// child is the environment variable that names the confined test.
const child = "LINERATE_CONFINED_TEST"

// patience is the timeout of a child. Its CPU time is limited separately, so a busy machine
// does not reach this timeout.
const patience = 10 * time.Minute

// Run runs f in a child process that may use at most memoryBytes of writable memory and
// cpuSeconds of CPU time, and fails t if the child fails, exceeds a limit, or hangs. It skips t
// on systems without such limits. The child also runs everything in the test before f, so a
// test must call Run first, and only once.
func Run(t *testing.T, memoryBytes, cpuSeconds uint64, f func(t *testing.T)) {
	t.Helper()
	if os.Getenv(child) == t.Name() {
		if err := limit(memoryBytes, cpuSeconds); err != nil {
			t.Fatal(err)
		}
		f(t)
		return
	}
	if !supported {
		t.Skip("this system does not limit the memory of a process")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	dir := t.TempDir()                                         // for files that a killed child leaves behind
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // a database there runs as another user
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Environ(), child+"="+t.Name(), "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		if len(out) > 8<<10 {
			out = append(out[:4<<10:4<<10], append([]byte("\n...\n"), out[len(out)-4<<10:]...)...)
		}
		t.Fatalf("within %d MiB and %d s of CPU time: %v\n%s", memoryBytes>>20, cpuSeconds, err, out)
	}
}
