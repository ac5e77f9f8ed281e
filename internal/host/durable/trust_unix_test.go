//go:build unix

package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/host/durable"
	"linerate/internal/must"
)

// TestPrivate: a directory is untrusted if another user could change anything on the path to
// it, including links and their targets.
func TestPrivate(t *testing.T) {
	must.SkipIf(t, os.Geteuid() != 0, "no other user without root")
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	mkdir := func(name string, uid int, mode fs.FileMode) {
		t.Helper()
		must.Do(t, os.MkdirAll(in(name), 0o755))
		must.Do(t, os.Chmod(in(name), mode))
		must.Do(t, os.Chown(in(name), uid, uid))
	}
	const other = 4711
	mkdir("good/state", 0, 0o700)
	mkdir("foreign", other, 0o755)
	mkdir("foreign/state", 0, 0o700)
	mkdir("open", 0, 0o777)
	mkdir("open/state", 0, 0o700)
	mkdir("group", 0, 0o770)
	mkdir("tmp", 0, fs.ModeSticky|0o777)
	mkdir("tmp/ours", 0, 0o700)
	mkdir("tmp/theirs", other, 0o700)
	link := func(target, name string, uid int) {
		t.Helper()
		must.Do(t, os.Symlink(target, in(name)))
		must.Do(t, os.Lchown(in(name), uid, uid))
	}
	link("good", "link", 0)
	link(in("good/state"), "tmp/link", other)
	link("../foreign/state", "good/away", 0)
	link("round", "round", 0)

	for name, why := range map[string]string{
		"good/state": "", "good/state/not/yet": "", "link/state": "", "tmp/ours": "", "tmp/new": "",
		"foreign/state": "belongs to another user (uid 4711)", "foreign/new": "belongs to another user",
		"open/state": "open may be written by others", "group": "may be written by others", "tmp": "may be written by others",
		"tmp/theirs": "belongs to another user", "tmp/theirs/new": "belongs to another user",
		"tmp/link": "link belongs to another user", "good/away": "foreign belongs to another user", "round": "too many symbolic links",
	} {
		err := durable.Private(in(name))
		switch {
		case why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case why != "" && (!errors.Is(err, durable.ErrUntrusted) || !strings.Contains(err.Error(), why)):
			t.Errorf("%s: %v, want %q", name, err, why)
		}
		also := durable.Trusted(in(name))
		must.True(t, (also == nil) == (err == nil), "%s: Trusted %v, Private %v", name, also, err)
	}
	t.Chdir(in("good"))
	must.Is(t, durable.Private("../foreign/x"), durable.ErrUntrusted, "a path that begins here")
}

// TestCloseUnlocks: even while a child that has not yet executed a program has the open file.
func TestCloseUnlocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	var f [2]*os.File
	for i := range f {
		f[i] = must.Get(os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600))(t)
	}
	must.Do(t, durable.Lock(f[0]))
	child := must.Get(unix.Dup(int(f[0].Fd())))(t)
	must.Do(t, durable.Close(f[0]))
	must.OK(t, durable.Lock(f[1]))
	must.OK(t, errors.Join(unix.Close(child), durable.Close(f[1])))
}
