//go:build unix

package atboot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/must"
)

// TestCrashChild is the process that is killed.
func TestCrashChild(t *testing.T) {
	w := strings.Fields(os.Getenv(crashVar))
	must.SkipIf(t, len(w) != 5, "started by TestKill")
	left, err := strconv.Atoi(w[1])
	must.Do(t, err)
	k := Keeper{State: w[4], Root: w[3], Program: filepath.Join(w[3], "words"), choose: kinds[w[2]].choose, After: func(string) {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	if w[0] == "install" {
		_, err = k.Install(t.Context())
	} else {
		_, err = k.Remove(t.Context())
	}
	must.Do(t, err)
}

// crash runs the child and reports whether it was killed before it was done.
func crash(t *testing.T, what string, steps int, kind string, k Keeper) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), crashVar+"="+strings.Join([]string{what, strconv.Itoa(steps), kind, k.Root, k.State}, " "))
	out, err := cmd.CombinedOutput()
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return false
	case exit != nil && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	t.Fatalf("%s, %d steps: %v\n%s", what, steps, err, out)
	return false
}

// TestKill kills Install, and Remove, after every one of their steps. Remove then leaves the
// machine as it was; Install completes the job.
func TestKill(t *testing.T) {
	for _, kind := range []string{"systemd", "windows"} {
		for _, what := range []string{"install", "remove"} {
			steps := 0
			for killed := true; killed; {
				steps++
				k := keeper(t, kind)
				before := k.tree(t)
				if what == "remove" {
					install(t, k)
				}
				killed = crash(t, what, steps, kind, k)
				when := fmt.Sprintf("%s: %s killed after %d steps", kind, what, steps)
				if steps%2 == 0 { // the other half without it
					install(t, k)
					for _, path := range kinds[kind].job {
						must.OK(t, must.Err(os.Lstat(filepath.Join(k.Root, path))), "%s", when)
					}
				}
				must.OK(t, must.Err(k.Remove(t.Context())), "%s", when)
				must.NoDiff(t, cmp.Diff(before, k.tree(t)), "%s", when)
			}
			must.True(t, steps >= 5, "%s, %s: %d steps only: the test looks at nothing", kind, what, steps)
		}
	}
}
