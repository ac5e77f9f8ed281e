package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

func TestFullDisk(t *testing.T) { knobtest.InNamespace(t, testFullDisk) }

func testFullDisk(t *testing.T) {
	dir := t.TempDir()
	knobtest.MountMemory(t, dir, 0, "size=32k")
	j := open(t, dir)
	appendAll(t, j, intent("t", 1, "a", "b"))
	filler := filepath.Join(dir, "filler")
	err := os.WriteFile(filler, make([]byte, 64<<10), 0o600)
	must.Need(t, errors.Is(err, syscall.ENOSPC), "the disk is not full: %v", err)
	long := strings.Repeat("x", 8<<10) // more than fits into the journal's last page
	err = j.Append(intent("t", 2, "a", long))
	must.Need(t, errors.Is(err, syscall.ENOSPC), "Append on a full disk = %v", err)
	must.Equal(t, numbers(j.OpenIntents()), "t/1", "open after a failed append")
	must.Do(t, os.Remove(filler))
	appendAll(t, j, intent("t", 3, "a", "c")) // nothing of the failed one is in its way
	records, damage, err := Read(dir)
	must.True(t, len(records) == 2 && len(damage) == 0 && err == nil, "%d records, damage %v, %v", len(records), damage, err)
}

func TestReadOnlyDirectory(t *testing.T) { knobtest.InNamespace(t, testReadOnlyDirectory) }

func testReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	knobtest.MountMemory(t, dir, syscall.MS_RDONLY, "")
	for _, d := range []string{dir, filepath.Join(dir, "below")} {
		_, err := Open(d)
		must.True(t, errors.Is(err, syscall.EROFS) && strings.Contains(err.Error(), d), "Open(%s) = %v, want an error that names the directory", d, err)
	}
}

// TestBecomesReadOnly has a crash leave an intent on a disk that is read-only afterwards: the
// intent can be read and undone, under the lock, and nothing recorded.
func TestBecomesReadOnly(t *testing.T) { knobtest.InNamespace(t, testBecomesReadOnly) }

func testBecomesReadOnly(t *testing.T) {
	dir := t.TempDir()
	knobtest.MountMemory(t, dir, 0, "size=64k")
	j := open(t, dir)
	appendAll(t, j, intent("t", 1, "a", "b"))
	must.Get(j.files[0].Write([]byte("{torn")))(t)
	must.Do(t, j.Close())
	remount := func(flags uintptr) {
		t.Helper()
		must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, ""))
	}
	remount(syscall.MS_RDONLY)
	j = open(t, dir)
	if got := numbers(j.OpenIntents()); got != "t/1" || len(j.Damage()) > 0 {
		t.Errorf("open %q, damage %v", got, j.Damage())
	}
	must.Is(t, must.Err(Open(dir)), ErrLocked, "a second Open")
	over := Record{Kind: KindUndone, Transaction: "t", Number: 1}
	err := j.Append(over)
	must.True(t, errors.Is(err, syscall.EROFS) && strings.Contains(err.Error(), j.Path()), "Append = %v", err)
	must.Equal(t, numbers(j.OpenIntents()), "t/1", "open after a failed append")
	must.Do(t, j.Close())
	remount(0)
	j = open(t, dir)
	appendAll(t, j, over)
	must.Equal(t, numbers(j.OpenIntents()), "", "open")
	must.Do(t, j.Close()) // before the unmount
}

func TestHereKnowsBootAndNamespace(t *testing.T) {
	o := Here()
	must.True(t, o.Boot != "" && o.Netns != 0, "Here = %+v", o)
}
