package persist_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// fill uses up the space on dir's file system.
func fill(t *testing.T, dir string) {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(dir, "filler")))(t)
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: with a full disk, below the files or below the records, Write leaves the
// machine unchanged and no temporary files.
func TestFullDisk(t *testing.T) { knobtest.InNamespace(t, testFullDisk) }

func testFullDisk(t *testing.T) {
	for _, full := range []string{"root", "state"} {
		k := persist.Keeper{Root: t.TempDir(), State: t.TempDir()}
		dir := map[string]string{"root": k.Root, "state": k.State}[full]
		knobtest.MountMemory(t, dir, 0, "size=64k")
		machine(t, k.Root)
		fill(t, dir)
		before := tree(t, k.Root)
		must.Is(t, must.Err(k.Write(day, ours())), syscall.ENOSPC, "%s full", full)
		must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)), "%s full", full)
		must.Do(t, os.Remove(filepath.Join(dir, "filler")))
		must.Len(t, must.Get(k.Records())(t), 0, "%s full", full)
		must.OK(t, must.Err(k.Write(day, ours())), "with room again")
	}
}

// TestFullDiskAtRestore: an undo that runs out of space fails, keeps its record, and succeeds
// once there is space.
func TestFullDiskAtRestore(t *testing.T) { knobtest.InNamespace(t, testFullDiskAtRestore) }

func testFullDiskAtRestore(t *testing.T) {
	k := persist.Keeper{Root: t.TempDir(), State: t.TempDir()}
	knobtest.MountMemory(t, k.Root, 0, "size=64k")
	machine(t, k.Root)
	before := tree(t, k.Root)
	must.Get(k.Write(day, ours()))(t)
	fill(t, k.Root)
	_, err := k.Restore("")
	must.True(t, err == nil || errors.Is(err, syscall.ENOSPC), "%v", err)
	must.Do(t, os.Remove(filepath.Join(k.Root, "filler")))
	must.OK(t, must.Err(k.Restore("")))
	must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)))
}

// TestReadOnly: a Write to a read-only file system changes nothing and removes its record.
func TestReadOnly(t *testing.T) { knobtest.InNamespace(t, testReadOnly) }

func testReadOnly(t *testing.T) {
	k := persist.Keeper{Root: t.TempDir(), State: t.TempDir()}
	knobtest.MountMemory(t, k.Root, 0, "size=256k")
	machine(t, k.Root)
	before := tree(t, k.Root)
	err := syscall.Mount("", k.Root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	must.SkipIf(t, err != nil, "no read-only mount here: %v", err)
	must.Is(t, must.Err(k.Write(day, ours())), persist.ErrReadOnly)
	must.Is(t, must.Err(k.Preview(ours())), persist.ErrReadOnly, "Preview")
	must.Len(t, must.Get(k.Records())(t), 0)
	must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)))
}
