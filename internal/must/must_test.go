package must

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// end is a test that keeps how it failed.
type end struct {
	text  string
	fatal bool
}

func (e *end) Helper()                   {}
func (e *end) Errorf(f string, a ...any) { e.text = fmt.Sprintf(f, a...) }
func (e *end) Fatal(args ...any)         { e.text, e.fatal = fmt.Sprint(args...), true }

// Skip keeps the reason too; no check that fails calls it.
func (e *end) Skip(args ...any) { e.text = "skipped: " + fmt.Sprint(args...) }

func TestMust(t *testing.T) {
	SkipIf(t, Updating(), "Golden writes its file with -update")
	path := filepath.Join(t.TempDir(), "golden")
	Do(t, os.WriteFile(path, []byte("a\nb\n"), 0o600))
	wrapped := fmt.Errorf("read: %w", io.EOF)
	for name, c := range map[string]struct {
		good, bad func(TB)
		want      string
		fatal     bool
	}{
		"Do":      {func(t TB) { Do(t, nil) }, func(t TB) { Do(t, io.EOF) }, "EOF", true},
		"Dof":     {func(t TB) { Dof(t, nil, "a") }, func(t TB) { Dof(t, io.EOF, "file %d", 3) }, "file 3: EOF", true},
		"Get":     {func(t TB) { Get(1, nil)(t) }, func(t TB) { Get(1, io.EOF)(t) }, "EOF", true},
		"OK":      {func(t TB) { OK(t, nil) }, func(t TB) { OK(t, Err(1, io.EOF), "a") }, "a: EOF", false},
		"Fail":    {func(t TB) { Fail(t, io.EOF) }, func(t TB) { Fail(t, nil, "a") }, "a: no error", false},
		"Is":      {func(t TB) { Is(t, wrapped, io.EOF) }, func(t TB) { Is(t, io.EOF, wrapped) }, "EOF, want read: EOF", false},
		"Say":     {func(t TB) { Say(t, wrapped, "read") }, func(t TB) { Say(t, io.EOF, "read") }, `EOF, want "read" in it`, false},
		"none":    {func(t TB) { Say(t, io.EOF, "") }, func(t TB) { Say(t, nil, "") }, `<nil>, want "" in it`, false},
		"True":    {func(t TB) { True(t, true, "") }, func(t TB) { True(t, false, "n %d%%", 3) }, "n 3%", false},
		"Need":    {func(t TB) { Need(t, true, "") }, func(t TB) { Need(t, false, "n %d%%", 3) }, "n 3%", true},
		"SkipIf":  {func(t TB) { SkipIf(t.(*end), false, "") }, func(t TB) { SkipIf(t.(*end), true, "no %s", "tc") }, "skipped: no tc", false},
		"Len":     {func(t TB) { Len(t, []int{7}, 1) }, func(t TB) { Len(t, []int{7}, 2, "n") }, "n: 1, want 2, in [7]", false},
		"Same":    {func(t TB) { Same(t, []int{1, 2}, []int{1, 2}) }, func(t TB) { Same(t, []int{2, 1}, []int{1, 2}, "n") }, "n: [2 1], want [1 2]", false},
		"Contain": {func(t TB) { Contain(t, "ab", "b") }, func(t TB) { Contain(t, "ab", "c") }, "no \"c\" in:\nab", false},
		"Equal":   {func(t TB) { Equal(t, 1, 1) }, func(t TB) { Equal(t, 1, 2, "n") }, "n: 1, want 2", false},
		"text":    {func(t TB) { Equal(t, "", "") }, func(t TB) { Equal(t, "a", "b") }, `"a", want "b"`, false},
		"Golden":  {func(t TB) { Golden(t, path, "a\nb\n") }, func(t TB) { Golden(t, path, "a\nc\n") }, path + " differs (renew it with -update): line 2 is \"c\", and was \"b\"; all of it:\na\nc\n", false},
		"NoDiff":  {func(t TB) { NoDiff(t, "") }, func(t TB) { NoDiff(t, "-1", "n") }, "n: (-want +got):\n-1", false},
	} {
		var good, bad end
		c.good(&good)
		c.bad(&bad)
		if good != (end{}) || bad != (end{c.want, c.fatal}) {
			t.Errorf("%s: %+v where all is well, %+v where not", name, good, bad)
		}
	}
	if got := Get(7, error(nil))(t); got != 7 {
		t.Errorf("Get returns %d", got)
	}
}
