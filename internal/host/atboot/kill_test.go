//go:build unix

package atboot

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/confined"
	"linerate/internal/must"
)

// TestCrashChild is the process that is killed.
func TestCrashChild(t *testing.T) {
	w := strings.Fields(os.Getenv(crashVar))
	must.SkipIf(t, len(w) != 5, "started by TestKill")
	left, err := strconv.Atoi(w[1])
	must.Do(t, err)
	k := Keeper{State: w[4], Root: w[3], Program: filepath.Join(w[3], "words"), choose: kinds[w[2]].choose, After: confined.KillAt(left)}
	if w[0] == "install" {
		_, err = k.Install(t.Context())
	} else {
		_, err = k.Remove(t.Context())
	}
	must.Do(t, err)
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
				killed = confined.Killed(t, "TestCrashChild", fmt.Sprintf("%s=%s %d %s %s %s", crashVar, what, steps, kind, k.Root, k.State))
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
