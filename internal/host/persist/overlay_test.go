package persist_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	hostfiles "linerate/internal/host/files"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// TestOverlay demands that a tree with changes on top reads as the tree in which
// they were made.
func TestOverlay(t *testing.T) {
	k := keeper(t)
	changes := must.Get(k.Preview(ours()))(t)
	over := hostfiles.Overlay(os.DirFS(k.Root), persist.Written(changes))
	read := func(root fs.FS) map[string]string {
		all := map[string]string{}
		for _, dir := range []string{"etc", "etc/sysctl.d", "etc/systemd/network"} {
			entries := must.Get(fs.ReadDir(root, dir))(t)
			for _, e := range entries {
				if e.IsDir() {
					continue
				}
				b := must.Get(fs.ReadFile(root, dir+"/"+e.Name()))(t)
				all[dir+"/"+e.Name()] = string(b)
			}
		}
		return all
	}
	predicted := read(over)
	must.Fail(t, must.Err(fs.ReadDir(over, "nosuch")), "a directory that is nowhere can be read")
	must.Fail(t, must.Err(fs.ReadLink(over, "etc/sysctl.conf")), "a changed file is a link")
	must.Get(k.Write(day, ours()))(t)
	must.NoDiff(t, cmp.Diff(read(os.DirFS(k.Root)), predicted))
}
