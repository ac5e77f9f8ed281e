// Package filestest makes trees of files to compare the formats of permanent files with real
// programs.
package filestest

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// Device is an interface of a tree.
type Device struct {
	Name   string
	Kernel string // the kernel's name; "" if udev renamed it
	Index  int
	MAC    string
	Driver string // "" for a virtual one
	Type   string // of include/uapi/linux/if_arp.h; "" is Ethernet
	Kind   string // "bond", "bridge", "vlan"
	Master string
	Parent string
	Link   string // the .link file that udev recorded
}

// Loopback is the one interface that every machine has; no file of a card is for it.
var Loopback = Device{Name: "lo", Kernel: "lo", Index: 1, MAC: "00:00:00:00:00:00", Type: "772"}

// Add adds what sysfs and udev say about a device to a tree.
func Add(root fstest.MapFS, d Device) {
	put := func(name, text string) { root[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	link := func(name, to string) { root[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777} }
	dir := "sys/class/net/" + d.Name
	put(dir+"/ifindex", fmt.Sprint(d.Index))
	put(dir+"/address", d.MAC)
	put(dir+"/mtu", "1500")
	put(dir+"/type", cmp.Or(d.Type, "1"))
	put(dir+"/name_assign_type", map[bool]string{true: "4", false: "3"}[d.Kernel == ""])
	text := "I:1\n"
	if d.Driver != "" {
		link(dir+"/device/driver", "../../bus/pci/drivers/"+d.Driver)
		text += "E:ID_NET_NAME_MAC=enx" + strings.ReplaceAll(d.MAC, ":", "") + "\nE:ID_PATH=pci-0000:0" + fmt.Sprint(d.Index) + ":00.0\n"
	}
	if d.Link != "" {
		text += "E:ID_NET_LINK_FILE=" + d.Link + "\n"
	}
	put(fmt.Sprintf("run/udev/data/n%d", d.Index), text)
	if d.Kind != "" {
		put(dir+"/uevent", "DEVTYPE="+d.Kind)
	}
	if d.Master != "" {
		link(dir+"/master", "../"+d.Master)
	}
	if d.Parent != "" {
		link(dir+"/lower_"+d.Parent, "../"+d.Parent)
	}
}

// Host returns the machine of a tree.
func Host(root fs.FS, ask files.Asker) files.Host {
	return files.Host{Root: root, System: "linux", Devices: device.All(tree.Tree{Root: root}), Ask: ask}
}

// Put writes the files of a tree whose names begin with one of parts below dir.
func Put(t testing.TB, dir string, root fs.FS, parts ...string) {
	t.Helper()
	for _, part := range parts {
		put(t, dir, root, part)
	}
}

func put(t testing.TB, dir string, root fs.FS, name string) {
	t.Helper()
	if entries, err := fs.ReadDir(root, name); err == nil {
		for _, e := range entries {
			put(t, dir, root, name+"/"+e.Name())
		}
		return
	}
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return // this tree has no such file
	}
	to := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Text shows files for the message of a test that fails.
func Text(all []files.File) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "== %s\n%s", f.Path, f.Content)
	}
	return b.String()
}

// TreeText shows a tree for the message of a test that fails.
func TreeText(root fstest.MapFS) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(root)) {
		fmt.Fprintf(&b, "== %s %v\n%s\n", name, root[name].Mode, root[name].Data)
	}
	return b.String()
}
