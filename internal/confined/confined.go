// Package confined runs a test in a child process with a hard limit on memory and CPU
// time, for tests that feed a reader with hostile input. A reader that takes too much
// ends the child, not the machine.
package confined

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// child is the variable of the environment that names the confined test.
const child = "LINERATE_CONFINED_TEST"

// patience is how long a child may take before it counts as hung. Its CPU time is
// bounded separately, so a busy machine does not reach this.
const patience = 10 * time.Minute

// Run runs f in a child process that may hold at most memoryBytes of writable memory and
// use at most cpuSeconds of CPU time, and fails t if the child fails, runs out of either,
// or hangs. It skips t on systems without such limits. Everything outside of f also runs
// in the child, so that a test calls Run first; one test calls it once.
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
	dir := t.TempDir()                                         // for what a killed child would leave
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
