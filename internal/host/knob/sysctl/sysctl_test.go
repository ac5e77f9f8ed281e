package sysctl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/sysctl"
	"linerate/internal/must"
)

func open(t *testing.T, root, name string) sysctl.Key {
	t.Helper()
	return must.Get(sysctl.Open(root, name))(t)
}

// tree makes a tree of settings with one file.
func tree(t *testing.T, path, text string) string {
	t.Helper()
	root := t.TempDir()
	path = filepath.Join(root, filepath.FromSlash(path))
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return root
}

func TestConformanceOnFakeTree(t *testing.T) {
	root := tree(t, "net/ipv4/tcp_rmem", "4096\t131072\t33554432\n")
	knobtest.Run(t, knobtest.Case{
		Backend: open(t, root, "net.ipv4.tcp_rmem"),
		Other:   "4096 65536 65536",
		Bad:     []string{"", "1\n2"},
		Absent:  open(t, root, "net.ipv4.tcp_nothing"),
	})
}

func TestReadKeepsTheText(t *testing.T) {
	root := tree(t, "net/ipv4/tcp_rmem", "4096\t131072\t33554432\n")
	got, err := open(t, root, "net.ipv4.tcp_rmem").Read(t.Context())
	want := "4096\t131072\t33554432"
	must.True(t, got == want && err == nil, "Read = %q, %v, want %q", got, err, want)
}

func TestNames(t *testing.T) {
	root := tree(t, "net/ipv4/conf/eth0.1/mtu", "7\n") // a dot inside a part is a slash, sysctl(8)
	must.Equal(t, must.Get(open(t, root, "net.ipv4.conf.eth0/1.mtu").Read(t.Context()))(t), "7", "Read")
	for _, bad := range []string{"", "net..ipv4", "net.//.x", ".net", "net."} {
		must.Fail(t, must.Err(sysctl.Open(root, bad)), "Open(%q) accepted a name that leaves the tree or is none", bad)
	}
}

func TestPermissionIsTold(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root opens everything, so ask for a setting that the kernel made read-only.
		err := open(t, "", "kernel.ostype").Check(t.Context(), "x")
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("this system has no /proc/sys/kernel/ostype")
		}
		must.Is(t, err, fs.ErrPermission, "Check of a read-only setting")
		return
	}
	root := tree(t, "net/ipv4/tcp_sack", "1\n")
	must.Do(t, os.Chmod(filepath.Join(root, "net/ipv4/tcp_sack"), 0o444))
	must.Is(t, open(t, root, "net.ipv4.tcp_sack").Check(t.Context(), "0"), fs.ErrPermission, "Check of a read-only file")
}

func TestAbsentIsUnsupported(t *testing.T) {
	_, err := open(t, t.TempDir(), "net.ipv4.tcp_sack").Read(t.Context())
	must.True(t, errors.Is(err, errors.ErrUnsupported) && strings.Contains(err.Error(), "net.ipv4.tcp_sack"),
		"Read = %v, want it to wrap errors.ErrUnsupported and name the setting", err)
}
