package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"linerate/internal/host/durable"
	"linerate/internal/must"
)

// TestSyncDirThatCannot: procfs refuses to sync a directory, as CIFS and some FUSE
// file systems do.
func TestSyncDirThatCannot(t *testing.T) {
	const dir = "/proc/self"
	d := must.Get(os.Open(dir))(t)
	defer d.Close()
	err := d.Sync()
	must.SkipIf(t, !errors.Is(err, syscall.EINVAL), "this kernel syncs %s: %v", dir, err)
	must.OK(t, durable.SyncDir(dir), "SyncDir")
	must.Is(t, durable.SyncDir(filepath.Join(t.TempDir(), "none")), os.ErrNotExist, "SyncDir of no directory")
}
