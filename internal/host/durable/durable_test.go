package durable_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"linerate/internal/host/durable"
	"linerate/internal/must"
)

// TestLock: one open file holds the lock, until it is closed; its text stays readable.
func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f := must.Get(os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600))(t)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	must.Do(t, durable.Lock(first))
	must.Get(first.WriteString("process 1"))(t)
	must.Is(t, durable.Lock(second), durable.ErrLocked, "a second lock")
	b := must.Get(os.ReadFile(name))(t)
	must.True(t, string(b) == "process 1", "read while locked: %q", b)
	must.Do(t, durable.Close(first))
	must.OK(t, durable.Lock(second), "after the first was closed")
}

// TestMissing: outermost first, each once, and no existing ones.
func TestMissing(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "etc", "sysctl.d"), 0o755))
	slash := string(filepath.Separator)
	at := func(name string) string { return filepath.Join(root, name) }
	in := func(name string) string { return filepath.FromSlash(name) }
	files := []string{in("/etc/sysctl.d/a"), in("/etc/net/link.d/b"), in("/etc/net/c"), in("/usr/d")}
	got, want := durable.Missing(files, at), []string{in("/etc/net"), in("/etc/net/link.d"), in("/usr")}
	must.True(t, slices.Equal(got, want), "Missing = %q, want %q", got, want)
	real := []string{root + slash + "x" + slash + "y" + slash + "f"}
	got, want = durable.Missing(real, nil), []string{root + slash + "x", root + slash + "x" + slash + "y"}
	must.True(t, slices.Equal(got, want), "Missing = %q, want %q", got, want)
	must.OK(t, durable.SyncDir(root))
}
