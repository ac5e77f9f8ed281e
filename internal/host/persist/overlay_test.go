package persist_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// TestOverlay: a tree with changes on top reads like the tree with the changes written.
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

// Renew replaces a proof next to its files, which can still be restored. A crash after any
// step leaves either the old proof or the new one.
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

// TestDamagedRecords: a flipped byte, a torn end or a missing file in one copy of a record
// loses nothing. In both copies it loses that record only, and Restore reports the damage
// until the record is removed.
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

// TestNewerRecord: a record of a newer version is refused and kept in full.
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

// TestPreviewIsWhatWriteDoes: Preview changes nothing and returns the bytes that Write then
// writes.
func TestPreviewIsWhatWriteDoes(t *testing.T) {
	k := keeper(t)
	before := tree(t, k.Root)
	changes := must.Get(k.Preview(ours()))(t)
	must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)), "the preview changed files")
	must.Fail(t, must.Err(os.Stat(k.State)), "the preview made the state directory")
	k.About = persist.About{Source: "test", Link: "eth0", Settings: []model.Assignment{{Knob: "tcp.sack", Value: "1"}}, Comments: []string{"why"}}
	r, err := k.Write(day, ours())
	must.Need(t, err == nil && len(changes) == len(ours()), "%d changes, %v", len(changes), err)
	for _, c := range changes {
		now := must.Get(os.ReadFile(filepath.Join(k.Root, c.Path)))(t)
		must.True(t, bytes.Equal(now, c.After) && !c.Same(), "%s holds %q, previewed was %q", c.Path, now, c.After)
	}
	again := must.Get(k.Preview(ours()))(t)
	for _, c := range again {
		must.True(t, c.Same() && c.Diff() == "", "%s would change again: %s", c.Path, c.Diff())
	}
	standing, err := k.Standing()
	diff := cmp.Diff([]persist.Record{r}, standing, cmp.AllowUnexported(persist.Snapshot{}), cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".bytes"
	}, cmp.Ignore()))
	must.True(t, err == nil && diff == "", "%v\n%s", err, diff)
}

// TestStandingEndsWithTheFiles edits and removes the files that were written.
func TestStandingEndsWithTheFiles(t *testing.T) {
	k := keeper(t)
	must.Do(t, must.Err(k.Write(day, ours()[1:]))) // one of linerate's own, one shared
	count := func() int { return len(must.Get(k.Standing())(t)) }
	own, shared := filepath.Join(k.Root, ours()[1].Path), filepath.Join(k.Root, ours()[2].Path)
	must.Do(t, os.WriteFile(own, []byte("edited"), 0o600))
	must.Equal(t, count(), 1, "with the block alone")
	text := must.Get(os.ReadFile(shared))(t)
	must.Do(t, os.Remove(shared))
	must.Do(t, os.WriteFile(shared, append([]byte("another line\n"), text...), 0o600))
	must.Equal(t, count(), 1, "with another line beside the block")
	err := os.WriteFile(shared, bytes.Replace(text, []byte("4194304"), []byte("1"), 1), 0o600)
	must.True(t, err == nil && count() == 0, "with all edited %d stand, %v", count(), err)
}

// TestPreviewFailsAsWrite edits a file of linerate's own before the preview.
func TestPreviewFailsAsWrite(t *testing.T) {
	k := keeper(t)
	must.Get(k.Write(day, ours()))(t)
	must.Do(t, os.WriteFile(filepath.Join(k.Root, ours()[0].Path), []byte("edited"), 0o600))
	_, previewErr := k.Preview(ours())
	_, writeErr := k.Write(day, ours())
	must.True(t, previewErr != nil && writeErr != nil && previewErr.Error() == writeErr.Error(), "preview: %v; write: %v", previewErr, writeErr)
}

func TestDiffText(t *testing.T) {
	for name, c := range map[string]struct {
		change persist.Change
		want   string
	}{
		"new": {persist.Change{Path: "/x", After: []byte("a\nb\n")}, "--- /dev/null\n+++ /x\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"far apart": {persist.Change{Path: "/x", Exists: true, Before: []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), After: []byte("A\n2\n3\n4\n5\n6\n7\n8\n9\nB\n")},
			"--- /x\n+++ /x\n@@ -1,4 +1,4 @@\n-1\n+A\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+B\n"},
		"no newline": {persist.Change{Path: "/x", Exists: true, Before: []byte("a"), After: []byte("a\nb\n")},
			"--- /x\n+++ /x\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"},
		"same": {persist.Change{Path: "/x", Exists: true, Before: []byte("a"), After: []byte("a")}, ""},
	} {
		must.NoDiff(t, cmp.Diff(c.want, c.change.Diff()), "%s", name)
	}
}

// TestDiffIsUnderstood has patch(1) turn the old file into the new one with the diff.
func TestDiffIsUnderstood(t *testing.T) {
	patch, err := exec.LookPath("patch")
	must.SkipIf(t, err != nil, "needs patch (Debian package patch)")
	dir := t.TempDir()
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) []byte {
			words := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "- x\n"}), 0, 40).Draw(t, label)
			return []byte(strings.Join(words, "") + rapid.SampledFrom([]string{"", "end"}).Draw(t, label+" ends"))
		}
		c := persist.Change{Path: "/etc/x", Exists: true, Before: text("before"), After: text("after")}
		name, out := filepath.Join(dir, "x"), filepath.Join(dir, "out")
		must.Do(t, os.WriteFile(name, c.Before, 0o600))
		if c.Same() {
			return
		}
		cmd := exec.CommandContext(ctx, patch, "--silent", "--fuzz=0", "-o", out, name)
		cmd.Stdin = strings.NewReader(c.Diff())
		said, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(out)
		must.Need(t, err == nil && bytes.Equal(got, c.After), "patch: %v: %s\n%q -> %q, want %q\n%s", err, said, c.Before, got, c.After, c.Diff())
	})
}

// The diff of a file with many thousands of changed lines is complete.
func TestDiffOfLargeFiles(t *testing.T) {
	c := persist.Change{Path: "/x", Exists: true, Before: []byte(strings.Repeat("a\nb\n", 5000)), After: []byte(strings.Repeat("c\nd\n", 5000))}
	d := c.Diff()
	must.True(t, strings.Count(d, "\n-")+strings.Count(d, "\n+") >= 20000, "%d bytes of diff", len(d))
}
