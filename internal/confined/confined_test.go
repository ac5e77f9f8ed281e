package confined

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestLimits: a child that exceeds the limit of memory or CPU time is ended, and one that stays
// within them is not. Neither leaves a file.
func TestLimits(t *testing.T) {
	must.SkipIf(t, !supported, "this system does not limit the memory of a process")
	for name, ok := range map[string]bool{"TestModest": true, "TestHungry": false, "TestBusy": false} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$", "-test.v")
		tmp := t.TempDir()
		cmd.Env = append(cmd.Environ(), "LINERATE_CONFINED_ABUSE=1", "TMPDIR="+tmp)
		out, err := cmd.CombinedOutput()
		must.True(t, (err == nil) == ok && (!ok || strings.Contains(string(out), "--- PASS: "+name)), "%s: %v\n%.2000s", name, err, out)
		must.Len(t, must.Get(os.ReadDir(tmp))(t), 0, "%s left", name)
	}
}

// abuse skips tests that only TestLimits starts.
func abuse(t *testing.T) {
	must.SkipIf(t, os.Getenv("LINERATE_CONFINED_ABUSE") == "", "started by TestLimits")
}

var (
	sink  []byte
	hoard [][]byte
)

func TestModest(t *testing.T) {
	abuse(t)
	Run(t, 256<<20, 10, func(t *testing.T) {
		sink = bytes.Repeat([]byte{1}, 32<<20)
		now, most, err := Memory(os.Getpid())
		must.True(t, err == nil && now >= 32<<20 && most >= now && most < 256<<20, "%d bytes, %d at most, %v", now, most, err)
	})
}

func TestHungry(t *testing.T) {
	abuse(t)
	Run(t, 256<<20, 10, func(t *testing.T) {
		t.TempDir()
		for range 64 { // in pieces: one large mapping sometimes succeeded
			hoard = append(hoard, make([]byte, 16<<20))
		}
	})
}

func TestBusy(t *testing.T) {
	abuse(t)
	Run(t, 256<<20, 1, func(*testing.T) {
		for { //nolint:staticcheck // it ends with its CPU time
		}
	})
}
