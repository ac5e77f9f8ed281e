package persist_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"linerate/internal/core/model"
	"linerate/internal/host/persist"
	"linerate/internal/must"
)

// TestPreviewIsWhatWriteDoes demands that a preview touches nothing and tells the
// bytes that Write then puts in place.
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

// TestStandingEndsWithTheFiles edits and removes what was written.
func TestStandingEndsWithTheFiles(t *testing.T) {
	k := keeper(t)
	must.Do(t, must.Err(k.Write(day, ours()[1:]))) // one of linerate's own, one shared
	count := func() int {
		all := must.Get(k.Standing())(t)
		return len(all)
	}
	own, shared := filepath.Join(k.Root, ours()[1].Path), filepath.Join(k.Root, ours()[2].Path)
	if err := os.WriteFile(own, []byte("edited"), 0o600); err != nil || count() != 1 {
		t.Errorf("with the block alone %d stand, %v", count(), err)
	}
	text := must.Get(os.ReadFile(shared))(t)
	must.Do(t, os.Remove(shared))
	if err := os.WriteFile(shared, append([]byte("another line\n"), text...), 0o600); err != nil || count() != 1 {
		t.Errorf("with another line beside the block %d stand, %v", count(), err)
	}
	err := os.WriteFile(shared, bytes.Replace(text, []byte("4194304"), []byte("1"), 1), 0o600)
	must.True(t, err == nil && count() == 0, "with all edited %d stand, %v", count(), err)
}

// TestPreviewFailsAsWrite has an edited file of linerate's own.
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
		"far apart": {
			persist.Change{Path: "/x", Exists: true, Before: []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), After: []byte("A\n2\n3\n4\n5\n6\n7\n8\n9\nB\n")},
			"--- /x\n+++ /x\n@@ -1,4 +1,4 @@\n-1\n+A\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+B\n",
		},
		"no newline": {
			persist.Change{Path: "/x", Exists: true, Before: []byte("a"), After: []byte("a\nb\n")},
			"--- /x\n+++ /x\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n",
		},
		"same": {persist.Change{Path: "/x", Exists: true, Before: []byte("a"), After: []byte("a")}, ""},
	} {
		must.NoDiff(t, cmp.Diff(c.want, c.change.Diff()), "%s", name)
	}
}

// TestDiffIsUnderstood has patch(1) make the new file of the old one and the diff.
func TestDiffIsUnderstood(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		t.Skip("needs patch (Debian package patch)")
	}
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

// A file with tens of thousands of changed lines is shown all the same.
func TestDiffOfLargeFiles(t *testing.T) {
	c := persist.Change{Path: "/x", Exists: true, Before: []byte(strings.Repeat("a\nb\n", 5000)), After: []byte(strings.Repeat("c\nd\n", 5000))}
	d := c.Diff()
	must.True(t, strings.Count(d, "\n-")+strings.Count(d, "\n+") >= 20000, "%d bytes of diff", len(d))
}
