package persist_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	hostfiles "linerate/internal/host/files"
	"linerate/internal/host/persist"
)

// TestOverlay demands that a tree with changes on top reads as the tree in which
// they were made.
func TestOverlay(t *testing.T) {
	k := keeper(t)
	changes, err := k.Preview(ours())
	if err != nil {
		t.Fatal(err)
	}
	over := hostfiles.Overlay(os.DirFS(k.Root), persist.Written(changes))
	read := func(root fs.FS) map[string]string {
		all := map[string]string{}
		for _, dir := range []string{"etc", "etc/sysctl.d", "etc/systemd/network"} {
			entries, err := fs.ReadDir(root, dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.IsDir() {
					continue
				}
				b, err := fs.ReadFile(root, dir+"/"+e.Name())
				if err != nil {
					t.Fatal(err)
				}
				all[dir+"/"+e.Name()] = string(b)
			}
		}
		return all
	}
	predicted := read(over)
	if _, err := fs.ReadDir(over, "nosuch"); err == nil {
		t.Error("a directory that is nowhere can be read")
	}
	if _, err := fs.ReadLink(over, "etc/sysctl.conf"); err == nil {
		t.Error("a changed file is a link")
	}
	if _, err := k.Write(day, ours()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(os.DirFS(k.Root)), predicted); diff != "" {
		t.Error(diff)
	}
}
