package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/app"
	"linerate/internal/app/apptest"
	"linerate/internal/app/local"
	"linerate/internal/fault"
	"linerate/internal/must"
)

// TestFolder measures a folder, reports progress, and leaves nothing there.
func TestFolder(t *testing.T) {
	p := &apptest.Person{}
	dir := t.TempDir()
	o := local.FolderOptions{State: filepath.Join(t.TempDir(), "state"), Size: 64 << 10, Repeats: 2, Seed: 1}
	r := must.Get(local.Folder(t.Context(), apptest.Env(p), dir, o))(t)
	must.Need(t, len(r.Trials) == 4, "%d trials", len(r.Trials))
	told := apptest.Events[app.FolderProgress](p)
	must.True(t, len(told) != 0 && told[len(told)-1].Share == 1 && told[len(told)-1].Repeats == 2, "told %+v", told)
	left, _ := os.ReadDir(dir)
	must.True(t, len(left) == 0, "left %v", left)
	o.Size = 0
	_, err := local.Folder(t.Context(), apptest.Env(p), dir, o)
	must.True(t, fault.KindOf(err) == fault.Usage, "nothing to write: %v", err)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	o.Size = 64 << 10
	r, err = local.Folder(ctx, apptest.Env(p), dir, o)
	must.True(t, fault.KindOf(err) == fault.Interrupted && len(r.Trials) == 0, "stopped: %+v, %v", r, err)
}
