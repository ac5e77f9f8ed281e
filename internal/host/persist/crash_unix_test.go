//go:build unix

package persist_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/confined"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// crashVar has a test process work on a tree and kill itself after a number of steps: "write
// 3 ROOT STATE".
const crashVar = "LINERATE_TEST_PERSIST_CRASH"

// TestCrashChild is the process that kills itself.
func TestCrashChild(t *testing.T) {
	words := strings.SplitN(os.Getenv(crashVar), " ", 4)
	must.SkipIf(t, len(words) != 4, "started by TestKill")
	left, err := strconv.Atoi(words[1])
	must.Do(t, err)
	k := persist.Keeper{Root: words[2], State: words[3], After: confined.KillAt(left)}
	if words[0] == "write" {
		_, err = k.Write(day, ours())
	} else {
		_, err = k.Restore("")
	}
	must.Do(t, err)
}

// TestKill kills a Write, and then a Restore, after each of its steps. Undo restores the
// earlier files in full and leaves nothing else.
func TestKill(t *testing.T) {
	for _, what := range []string{"write", "restore"} {
		steps := 0
		for killed := true; killed; {
			steps++
			k := keeper(t)
			before := tree(t, k.Root)
			if what == "restore" {
				must.Get(k.Write(day, ours()))(t)
			}
			killed = confined.Killed(t, "TestCrashChild", fmt.Sprintf("%s=%s %d %s %s", crashVar, what, steps, k.Root, k.State))
			whole(t, k)
			must.OK(t, must.Err(k.Restore("")), "%s, killed after %d steps", what, steps)
			must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)), "%s, killed after %d steps", what, steps)
			rest, _ := filepath.Glob(filepath.Join(k.State, "kept", "0*"))
			must.True(t, len(rest) == 0, "%s, killed after %d steps: %q is left", what, steps, rest)
		}
		must.True(t, steps >= 7, "%s has %d steps only: the test looks at nothing", what, steps)
	}
}

// whole demands that every file holds one of its two texts, never part of one.
func whole(t *testing.T, k persist.Keeper) {
	t.Helper()
	for name, texts := range map[string][]string{
		"etc/sysctl.d/zz-linerate.conf": {"# by hand\nb = 2", "# linerate\na = 1\n"},
		"etc/sysctl.conf":               {"kern.coredump=0", "kern.coredump=0\n" + block},
	} {
		b := must.Get(os.ReadFile(filepath.Join(k.Root, name)))(t)
		must.True(t, string(b) == texts[0] || string(b) == texts[1], "%s holds %q", name, b)
	}
}

func ownerText(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%d:%d", s.Uid, s.Gid)
}
