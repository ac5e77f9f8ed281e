package sysctl_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/host/knob/sysctl"
	"linerate/internal/must"
)

const writable = 0x40000000

func number(width int, n uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, n)
	if width == 4 {
		b = binary.NativeEndian.AppendUint32(nil, uint32(n))
	}
	return b
}

// nodes is a tree with the types that the catalogue needs: FreeBSD's from the SYSCTL_
// declarations in its source, macOS's from xnu's.
func nodes() map[string]*sysctl.Node {
	return map[string]*sysctl.Node{
		"kern.ipc.maxsockbuf":        {Kind: writable | 8, Format: "LU", Value: number(8, 2097152)},   // SYSCTL_ULONG
		"net.inet.tcp.recvspace":     {Kind: writable | 2, Format: "I", Value: number(4, 65536)},      // SYSCTL_INT
		"net.inet.tcp.sendbuf_max":   {Kind: writable | 2, Format: "I", Value: number(4, 2097152)},    //
		"net.inet.tcp.cc.algorithm":  {Kind: writable | 3, Format: "A", Value: []byte("newreno\x00")}, // SYSCTL_PROC, string
		"net.inet.tcp.autorcvbufmax": {Kind: writable | 2, Format: "IU", Value: number(4, 4194304)},   // macOS: unsigned by format
		"kern.ipc.nmbclusters":       {Kind: writable | 2, Format: "I", Value: number(4, 100000), Refuse: shrinks(100000)},
		"net.isr.maxthreads":         {Kind: 2, Format: "I", Value: number(4, 1)}, // CTLFLAG_RDTUN
		"kern.msgbuf":                {Kind: 5, Format: "S,x", Value: make([]byte, 99)},
	}
}

// shrinks refuses values below least, as for a pool that may only grow.
func shrinks(least uint32) func([]byte) bool {
	return func(b []byte) bool { return binary.NativeEndian.Uint32(b) < least }
}

func TestConformanceOnTypedTree(t *testing.T) {
	all := nodes()
	absent := sysctl.OpenMemory(all, "net.inet.tcp.nothing")
	for name, c := range map[string]knobtest.Case{
		"kern.ipc.maxsockbuf":        {Other: "16777216", Bad: []string{"", "x", "-1", "18446744073709551616"}},
		"net.inet.tcp.recvspace":     {Other: "131072", Bad: []string{"", "2147483648", "1 2", "0x10"}},
		"net.inet.tcp.cc.algorithm":  {Other: "cubic", Bad: []string{"", "a\nb"}},
		"net.inet.tcp.autorcvbufmax": {Other: "4294967295", Bad: []string{"-1", "4294967296"}},
		"kern.ipc.nmbclusters":       {Other: "200000", Bad: []string{"99999"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Backend, c.Absent = sysctl.OpenMemory(all, name), absent
			knobtest.Run(t, c)
		})
	}
	must.Is(t, sysctl.OpenMemory(all, "net.isr.maxthreads").Check(t.Context(), "4"), errors.ErrUnsupported, "Check of a boot-time setting")
	must.Equal(t, must.Get(sysctl.OpenMemory(all, "net.isr.maxthreads").Read(t.Context()))(t), "1", "Read of a boot-time setting")
	must.Is(t, must.Err(sysctl.OpenMemory(all, "kern.msgbuf").Read(t.Context())), errors.ErrUnsupported, "Read of an opaque setting")
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		kind   uint32
		format string
		raw    []byte
		want   string
	}{
		{2, "I", []byte{0xff, 0xff, 0xff, 0xff}, "-1"}, {2, "IU", []byte{0xff, 0xff, 0xff, 0xff}, "4294967295"}, {6, "IU", number(4, 7), "7"},
		{8, "LU", number(8, 1<<63), "9223372036854775808"}, {7, "L", number(8, 1<<64-2), "-2"}, {4, "Q", number(8, 5), "5"}, {4, "QU", number(8, 1<<64-1), "18446744073709551615"},
		{0xa, "CU", []byte{200}, "200"}, {0xc, "C", []byte{200}, "-56"}, {0xd, "S", []byte{0xfe, 0xff}, "-2"}, {3, "A", []byte("cubic\x00rest"), "cubic"},
	} {
		must.Equal(t, must.Get(sysctl.Decode(c.kind, c.format, c.raw))(t), c.want, "kind %d %s %x", c.kind, c.format, c.raw)
	}
	for _, width := range []int{0, 3, 12} {
		must.Is(t, must.Err(sysctl.Decode(2, "I", make([]byte, width))), errors.ErrUnsupported, "a number of %d bytes", width)
	}
}

// TestNumbersRoundTrip: every number of every width keeps its value through text.
func TestNumbersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "width")
		kind := rapid.SampledFrom([]uint32{2, 6, 7, 8, 9, 0xe, 0xf}).Draw(t, "kind")
		raw := rapid.SliceOfN(rapid.Byte(), width, width).Draw(t, "raw")
		text := must.Get(sysctl.Decode(kind, "", raw))(t)
		back, err := sysctl.Encode(kind, "", text, width)
		must.Need(t, bytes.Equal(back, raw) && err == nil, "%x is %s is %x, %v", raw, text, back, err)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(uint32(2), "I", []byte{1, 2, 3, 4})
	f.Fuzz(func(_ *testing.T, kind uint32, format string, b []byte) { _, _ = sysctl.Decode(kind, format, b) })
}

func open(t *testing.T, root, name string) sysctl.Key {
	t.Helper()
	return must.Get(sysctl.Open(root, name))(t)
}

// tree makes a settings tree with one file.
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
	got, err := open(t, tree(t, "net/ipv4/tcp_rmem", "4096\t131072\t33554432\n"), "net.ipv4.tcp_rmem").Read(t.Context())
	want := "4096\t131072\t33554432"
	must.True(t, got == want && err == nil, "Read = %q, %v, want %q", got, err, want)
}

func TestNames(t *testing.T) {
	root := tree(t, "net/ipv4/conf/eth0.1/mtu", "7\n") // a dot inside a component is written as a slash, sysctl(8)
	must.Equal(t, must.Get(open(t, root, "net.ipv4.conf.eth0/1.mtu").Read(t.Context()))(t), "7", "Read")
	for _, bad := range []string{"", "net..ipv4", "net.//.x", ".net", "net."} {
		must.Fail(t, must.Err(sysctl.Open(root, bad)), "Open(%q) accepted a name that leaves the tree or is none", bad)
	}
}

func TestPermissionIsTold(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root can open everything, so use a setting that the kernel makes read-only.
		err := open(t, "", "kernel.ostype").Check(t.Context(), "x")
		must.SkipIf(t, errors.Is(err, fs.ErrNotExist), "this system has no /proc/sys/kernel/ostype")
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
