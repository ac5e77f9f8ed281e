package persist_test

import (
	"io/fs"
	"os"
	"path/filepath"
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

// A proof is replaced beside its files, which go back as before; a crash after any step
// leaves the old proof or the new one, and never none.
func TestRenew(t *testing.T) {
	for _, crash := range []string{"", "renewing record.json", "renewing record.copy.json"} {
		k := keeper(t)
		before := tree(t, k.Root)
		k.About = persist.About{Source: "a session", Proof: "old"}
		r := must.Get(k.Write(day, ours()))(t)
		written := tree(t, k.Root)
		func() {
			defer func() { _ = recover() }()
			k.After = func(step string) {
				if step == crash {
					panic(step)
				}
			}
			must.OK(t, k.Renew(r.ID, "new"))
		}()
		k.After = nil
		all, err := k.Peek()
		must.True(t, err == nil && len(all) == 1 && (all[0].Proof == "new" || crash != "" && all[0].Proof == "old") && all[0].Source == "a session" && all[0].Damage == "", "crash at %q: %+v, %v", crash, all, err)
		got := tree(t, k.Root)
		must.True(t, len(got) == len(written), "crash at %q: %v", crash, got)
		must.OK(t, must.Err(k.Restore("")))
		if got := tree(t, k.Root); len(got) != len(before) {
			t.Errorf("crash at %q: %v is left", crash, got)
		}
	}
}

// Without a record there is no proof to replace; a damaged record is reported as damaged.
func TestRenewRefuses(t *testing.T) {
	k := keeper(t)
	must.Is(t, k.Renew("000001", "new"), fs.ErrNotExist)
	r := must.Get(k.Write(day, ours()))(t)
	for _, name := range []string{"record.json", "record.copy.json"} {
		must.Do(t, os.WriteFile(filepath.Join(k.State, "kept", r.ID, name), []byte("{"), 0o600))
	}
	must.Is(t, k.Renew(r.ID, "new"), persist.ErrDamaged)
}
