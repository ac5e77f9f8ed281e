package persist_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

var day = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)

const block = files.BlockBegin + "\nkern.ipc.maxsockbuf=4194304\n" + files.BlockEnd + "\n"

// ours returns one file of linerate's own, one in a new directory and one shared.
func ours() []files.File {
	return []files.File{
		{Path: "/etc/sysctl.d/zz-linerate.conf", Mode: 0o644, Content: []byte("# linerate\na = 1\n")},
		{Path: "/etc/systemd/network/10-linerate-eth0.link", Mode: 0o600, Content: []byte("[Match]\n")},
		{Path: "/etc/sysctl.conf", Mode: 0o644, Content: []byte(block), Block: true},
	}
}

// machine makes a tree with some existing files.
func machine(t testing.TB, root string) {
	t.Helper()
	for name, f := range map[string]struct {
		text string
		mode fs.FileMode
	}{
		"etc/sysctl.d/zz-linerate.conf": {"# by hand\nb = 2", 0o640},
		"etc/sysctl.conf":               {"kern.coredump=0", 0o444}, // no line feed at the end
		"etc/other":                     {"other", 0o600},
	} {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(f.text), f.mode))
		must.Do(t, os.Chmod(path, f.mode))
		if os.Geteuid() == 0 && runtime.GOOS != "windows" {
			err := os.Chown(path, 12, 34) // a user namespace may map only one user
			must.Need(t, err == nil || errors.Is(err, syscall.EINVAL), "%v", err)
		}
	}
}

// tree describes everything below root: names, bytes, modes and owners.
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if !d.IsDir() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		name, _ := filepath.Rel(root, path)
		all[name] = fmt.Sprintf("%v %s %q", info.Mode(), ownerText(info), text)
		return nil
	}))
	return all
}

func keeper(t testing.TB) persist.Keeper {
	t.Helper()
	k := persist.Keeper{Root: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	machine(t, k.Root)
	return k
}

func TestWriteAndRestore(t *testing.T) {
	k := keeper(t)
	before := tree(t, k.Root)
	r := must.Get(k.Write(day, ours()))(t)
	after := tree(t, k.Root)
	for name, want := range map[string]string{
		"etc/sysctl.d/zz-linerate.conf":             `"# linerate\na = 1\n"`,
		"etc/systemd/network/10-linerate-eth0.link": `"[Match]\n"`,
		"etc/sysctl.conf":                           fmt.Sprintf("%q", "kern.coredump=0\n"+block),
	} {
		must.True(t, strings.HasSuffix(after[name], want), "%s is %s, want %s", name, after[name], want)
	}
	must.True(t, runtime.GOOS == "windows" || strings.HasPrefix(after["etc/sysctl.conf"], "-r--r--r-- "),
		"the shared file has another mode now: %s", after["etc/sysctl.conf"])
	must.True(t, after["etc/other"] == before["etc/other"] && len(after) == len(before)+3, "something else was touched: %v", after)
	records := must.Get(k.Records())(t)
	must.True(t, len(records) == 1 && records[0].ID == r.ID && len(records[0].Files) == 3, "%+v", records)
	results := must.Get(k.Restore(""))(t)
	must.True(t, len(results) == 3 && results[0].State == model.FileRestored, "%+v", results)
	must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)))
	must.Len(t, must.Get(k.Restore(""))(t), 0, "a second time")
}

// TestOneFileGoesBack: Restore removes a single written file and its record. Regression: a
// system would not remove the record's directory.
func TestOneFileGoesBack(t *testing.T) {
	root := t.TempDir()
	k := persist.Keeper{Root: root, State: root + ".state"}
	machine(t, root)
	before := tree(t, root)
	f := ours()[0]
	f.Content = []byte("0hwzt\n")
	if f.Block {
		f.Content = []byte(files.BlockBegin + "\n0hwzt\n" + files.BlockEnd + "\n")
	}
	must.Get(k.Write(day, []files.File{f}))(t)
	must.Get(k.Restore(""))(t)
	must.NoDiff(t, cmp.Diff(before, tree(t, root)))
	must.Len(t, must.Get(k.Records())(t), 0, "left")
}

// TestStack: several overlapping writes are undone to the first state.
func TestStack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		root := t.TempDir()
		k := persist.Keeper{Root: root, State: root + ".state"}
		machine(t, root)
		before := tree(t, root)
		for i := range rapid.IntRange(1, 4).Draw(rt, "writes") {
			var some []files.File
			for j, f := range ours() {
				if rapid.Bool().Draw(rt, "this") || j == 2 && len(some) == 0 {
					text := fmt.Sprintf("%d%s\n", i, rapid.StringMatching(`[a-z ]{0,9}`).Draw(rt, "text"))
					f.Content = []byte(text)
					if f.Block {
						f.Content = []byte(files.BlockBegin + "\n" + text + files.BlockEnd + "\n")
					}
					some = append(some, f)
				}
			}
			must.Get(k.Write(day, some))(rt)
		}
		n := strings.Count(tree(t, root)["etc/sysctl.conf"], "BEGIN")
		must.Need(rt, n <= 1, "%d blocks in a shared file", n)
		must.Get(k.Restore(""))(rt)
		diff := cmp.Diff(before, tree(t, root))
		must.Need(rt, diff == "", "%v", diff)
	})
}

func edit(t *testing.T, k persist.Keeper, name, text string) {
	t.Helper()
	path := filepath.Join(k.Root, name)
	_ = os.Remove(path)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestChangedSince: neither Write nor Restore overwrites a file that was edited since.
// Restore puts the other files back and keeps the record.
func TestChangedSince(t *testing.T) {
	for _, c := range []struct{ name, path, text string }{
		{"own file", "etc/sysctl.d/zz-linerate.conf", "edited"},
		{"new file", "etc/systemd/network/10-linerate-eth0.link", "edited"},
		{"block", "etc/sysctl.conf", "kern.coredump=0\n" + strings.Replace(block, "4194304", "1", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keeper(t)
			before := tree(t, k.Root)
			must.Get(k.Write(day, ours()))(t)
			edit(t, k, c.path, c.text)
			edited := tree(t, k.Root)
			must.Is(t, must.Err(k.Write(day, ours())), persist.ErrChanged, "written over")
			must.NoDiff(t, cmp.Diff(edited, tree(t, k.Root)))
			results, err := k.Restore("")
			must.Is(t, err, persist.ErrChanged, "restored over")
			changed := lists.Count(results, func(r model.FileResult) bool { return r.State == model.FileChanged })
			after := tree(t, k.Root)
			must.True(t, changed == 1 && after[c.path] == edited[c.path] && len(after) >= len(before), "%+v\n%v", results, after)
			must.Len(t, must.Get(k.Records())(t), 1, "the record is gone")
			// Once the edit is reverted by hand, the record can go.
			if _, ok := before[c.path]; !ok {
				must.Do(t, os.Remove(filepath.Join(k.Root, c.path)))
			} else {
				saved := 0
				if c.name == "block" {
					saved = 2
				}
				b := must.Get(os.ReadFile(filepath.Join(k.State, "kept", "000001", fmt.Sprint(saved))))(t)
				edit(t, k, c.path, string(b))
			}
			must.OK(t, must.Err(k.Restore("")))
		})
	}
}

// TestSharedFileEditedAround: Write keeps edits of a shared file outside linerate's block.
func TestSharedFileEditedAround(t *testing.T) {
	k := keeper(t)
	must.Get(k.Write(day, ours()[2:]))(t)
	edit(t, k, "etc/sysctl.conf", "first=1\n"+block+"last=1\n")
	next := ours()[2:]
	next[0].Content = []byte(strings.Replace(block, "4194304", "8388608", 1))
	must.Get(k.Write(day, next))(t)
	got, _ := os.ReadFile(filepath.Join(k.Root, "etc/sysctl.conf"))
	must.True(t, string(got) == "first=1\n"+string(next[0].Content)+"last=1\n", "%s", got)
}

func TestRefuses(t *testing.T) {
	k := keeper(t)
	if runtime.GOOS != "windows" {
		must.Do(t, os.Symlink("other", filepath.Join(k.Root, "etc/link")))
	}
	edit(t, k, "etc/half", files.BlockBegin+"\nx\n")
	edit(t, k, "etc/twice", block+block)
	edit(t, k, "etc/end", files.BlockEnd+"\n")
	before := tree(t, k.Root)
	own := ours()[0]
	for _, c := range []struct {
		name string
		f    files.File
		is   error
	}{
		{"directory", files.File{Path: "/etc/sysctl.d"}, persist.ErrIrregular},
		{"symbolic link", files.File{Path: "/etc/link"}, persist.ErrIrregular},
		{"relative", files.File{Path: "linerate.reg"}, nil},
		{"dots", files.File{Path: "/etc/../../x"}, nil},
		{"backslash", files.File{Path: `/etc\x`}, nil},
		{"twice", own, nil},
		{"half a block", files.File{Path: "/etc/half", Block: true}, nil},
		{"two blocks", files.File{Path: "/etc/twice", Block: true}, nil},
		{"an end alone", files.File{Path: "/etc/end", Block: true}, nil},
		{"a file as directory", files.File{Path: "/etc/other/x"}, nil},
	} {
		if c.name == "symbolic link" && runtime.GOOS == "windows" {
			continue
		}
		_, err := k.Write(day, []files.File{own, c.f})
		must.True(t, err != nil && (c.is == nil || errors.Is(err, c.is)), "%s: %v", c.name, err)
		must.NoDiff(t, cmp.Diff(before, tree(t, k.Root)), "%s", c.name)
	}
	must.Fail(t, must.Err(k.Write(day, nil)), "no files are a record")
	must.Len(t, must.Get(k.Records())(t), 0)
}

// TestDamagedSave: Restore does not write back a damaged copy.
func TestDamagedSave(t *testing.T) {
	k := keeper(t)
	must.Get(k.Write(day, ours()))(t)
	must.Do(t, os.WriteFile(filepath.Join(k.State, "kept", "000001", "0"), []byte("rot"), 0o600))
	results, err := k.Restore("")
	must.True(t, errors.Is(err, fs.ErrInvalid) && results[2].State == model.FileFailed, "%+v, %v", results, err)
	got, _ := os.ReadFile(filepath.Join(k.Root, "etc/sysctl.d/zz-linerate.conf"))
	must.True(t, string(got) == "# linerate\na = 1\n", "%s", got)
}

// TestEditedMeanwhile: Write leaves a file that is edited between reading and renaming alone,
// and puts the others back.
func TestEditedMeanwhile(t *testing.T) {
	k := keeper(t)
	before := tree(t, k.Root)
	k.After = func(step string) {
		if step == "renamed /etc/sysctl.d/zz-linerate.conf" {
			edit(t, k, "etc/sysctl.conf", "race")
		}
	}
	must.Is(t, must.Err(k.Write(day, ours())), persist.ErrChanged)
	after := tree(t, k.Root)
	must.True(t, strings.HasSuffix(after["etc/sysctl.conf"], `"race"`), "%s", after["etc/sysctl.conf"])
	delete(before, "etc/sysctl.conf")
	delete(after, "etc/sysctl.conf")
	must.NoDiff(t, cmp.Diff(before, after))
	must.Len(t, must.Get(k.Records())(t), 0)
}

func TestOneAtATime(t *testing.T) {
	k := keeper(t)
	second := k
	var got error
	k.After = func(step string) {
		if step == "saved" {
			_, got = second.Restore("")
		}
	}
	must.Get(k.Write(day, ours()))(t)
	must.Is(t, got, persist.ErrLocked)
}

func TestRestoreSince(t *testing.T) {
	k := keeper(t)
	must.Get(k.Write(day, ours()))(t)
	between := tree(t, k.Root)
	more := ours()
	for i := range more {
		more[i].Content = bytes.ReplaceAll(more[i].Content, []byte("= "), []byte("=  "))
	}
	second := must.Get(k.Write(day, more))(t)
	must.Need(t, !cmp.Equal(between, tree(t, k.Root)), "the second write changed nothing")
	must.Get(k.Restore(second.ID))(t)
	must.NoDiff(t, cmp.Diff(between, tree(t, k.Root)))
	must.Len(t, must.Get(k.Records())(t), 1)
}
