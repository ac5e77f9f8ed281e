package persist_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// TestOverlay demands that a tree with changes on top reads as the tree in which
// they were made.
func TestOverlay(t *testing.T) {
	k := keeper(t)
	changes := must.Get(k.Preview(ours()))(t)
	over := files.Overlay(os.DirFS(k.Root), persist.Written(changes))
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
		got = tree(t, k.Root)
		must.True(t, len(got) == len(before), "crash at %q: %v is left", crash, got)
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

// twoKept writes two files in two records.
func twoKept(t *testing.T) persist.Keeper {
	t.Helper()
	k := persist.Keeper{Root: t.TempDir(), State: t.TempDir()}
	must.Do(t, os.Mkdir(filepath.Join(k.Root, "etc"), 0o755))
	for i, name := range []string{"/etc/a", "/etc/b"} {
		must.Get(k.Write(time.Unix(int64(i), 0), []files.File{{Path: name, Content: []byte("x\n"), Mode: 0o644}}))(t)
	}
	return k
}

// TestDamagedRecords: a byte that flips, a torn end and a lost file in one copy of
// a record cost nothing; in both copies they cost that record alone, which is told
// until somebody removes it.
func TestDamagedRecords(t *testing.T) {
	damages := map[string]func([]byte) []byte{
		"gone":  func([]byte) []byte { return nil },
		"empty": func([]byte) []byte { return []byte{} },
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
	}
	for _, tenth := range []int{1, 3, 5, 7, 9} {
		damages[fmt.Sprintf("torn at %d0%%", tenth)] = func(b []byte) []byte { return b[:len(b)*tenth/10] }
		damages[fmt.Sprintf("flipped at %d0%%", tenth)] = func(b []byte) []byte {
			b = bytes.Clone(b)
			b[len(b)*tenth/10] ^= 0x10
			return b
		}
	}
	for name, damage := range damages {
		for which, names := range map[string][]string{"first": {"record.json"}, "second": {"record.copy.json"}, "both": {"record.json", "record.copy.json"}} {
			t.Run(name+"/"+which, func(t *testing.T) {
				k := twoKept(t)
				for _, file := range names {
					path := filepath.Join(k.State, "kept", "000002", file)
					b, err := os.ReadFile(path)
					must.Do(t, err)
					if b = damage(b); b == nil {
						err = os.Remove(path)
					} else {
						err = os.WriteFile(path, b, 0o600)
					}
					must.Do(t, err)
				}
				results, err := k.Restore("")
				lost := which == "both"
				must.True(t, errors.Is(err, persist.ErrDamaged) == lost && len(results) == 2 && (results[0].State == model.FileFailed) == lost && results[1].State == model.FileRestored, "Restore = %+v, %v", results, err)
				left, _ := os.ReadDir(filepath.Join(k.Root, "etc"))
				must.Equal(t, len(left) > 0, lost, "left: %v", left)
				if !lost {
					return
				}
				records := must.Get(k.Records())(t)
				must.True(t, len(records) == 1 && strings.Contains(records[0].Damage, "000002"), "Records = %+v", records)
				must.Is(t, must.Err(k.Restore("")), persist.ErrDamaged, "told once only")
				r := must.Get(k.Write(time.Unix(9, 0), []files.File{{Path: "/etc/c", Content: []byte("x\n"), Mode: 0o644}}))(t)
				must.True(t, r.ID == "000003", "Write beside it: %+v", r)
			})
		}
	}
}

// TestNewerRecord is refused, and nothing of it is dropped.
func TestNewerRecord(t *testing.T) {
	k := twoKept(t)
	for _, name := range []string{"record.json", "record.copy.json"} {
		must.Do(t, os.WriteFile(filepath.Join(k.State, "kept", "000001", name), []byte(`{"v":2,"what":"unknown"}`), 0o600))
	}
	results, err := k.Restore("")
	must.True(t, errors.Is(err, persist.ErrNewer) && len(results) == 0, "Restore = %+v, %v", results, err)
	must.Is(t, must.Err(k.Write(time.Unix(9, 0), []files.File{{Path: "/etc/c", Content: []byte("x\n"), Mode: 0o644}})), persist.ErrNewer, "Write")
	left, _ := os.ReadDir(filepath.Join(k.Root, "etc"))
	must.True(t, len(left) == 2, "left: %v", left)
}
