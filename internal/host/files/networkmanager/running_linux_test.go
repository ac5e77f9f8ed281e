package networkmanager_test

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// profile is a keyfile of a device.
func profile(id, uuid, kind, link, more string) *fstest.MapFile {
	return file(fmt.Sprintf("[connection]\nid=%s\nuuid=%s-2222-3333-4444-555555555555\ntype=%s\ninterface-name=%s\n%s", id, uuid, kind, link, more))
}

const (
	static = "\n[ipv4]\nmethod=manual\naddress1=192.0.2.5/24\n\n[ipv6]\nmethod=disabled\n"
	second = "\n[ipv4]\nmethod=manual\naddress1=192.0.2.9/24\n\n[ipv6]\nmethod=disabled\n"
	slave  = "master=br0\nslave-type=bridge\n"
)

// dated returns a file that was written at a second of 1970.
func dated(f *fstest.MapFile, second int64) *fstest.MapFile {
	f.ModTime = time.Unix(second, 0)
	return f
}

// machines are the ways in which profiles match the interface to set.
var machines = map[string]struct {
	link    string
	files   fstest.MapFS
	refused string // "" if it is proven without further files
}{
	"plain":            {"eno1", fstest.MapFS{dir + "lan.nmconnection": profile("lan", "11111111", "ethernet", "eno1", static)}, ""},
	"with an MTU":      {"eno1", fstest.MapFS{dir + "lan.nmconnection": profile("lan", "11111111", "ethernet", "eno1", "\n[ethernet]\nmtu=1400\n"+static)}, ""},
	"old name":         {"eno1", fstest.MapFS{dir + "lan.nmconnection": profile("lan", "11111111", "802-3-ethernet", "eno1", "\n[802-3-ethernet]\nmtu=1400\n"+static)}, ""},
	"by priority":      {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "11111111", "ethernet", "eno1", second), dir + "b.nmconnection": profile("b", "22222222", "ethernet", "eno1", "autoconnect-priority=5\n"+static)}, ""},
	"two of one rank":  {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "11111111", "ethernet", "eno1", second), dir + "b.nmconnection": profile("b", "22222222", "ethernet", "eno1", static)}, "may get this profile"},
	"not by itself":    {"eno1", fstest.MapFS{dir + "lan.nmconnection": profile("lan", "11111111", "ethernet", "eno1", "autoconnect=false\n"+static)}, "by itself"},
	"in /run":          {"eno1", fstest.MapFS{"run/NetworkManager/system-connections/lan.nmconnection": profile("lan", "11111111", "ethernet", "eno1", static)}, ""},
	"hidden by /run":   {"eno1", fstest.MapFS{dir + "lan.nmconnection": profile("lan", "11111111", "ethernet", "eno1", second), "run/NetworkManager/system-connections/lan.nmconnection": profile("lan", "11111111", "ethernet", "eno1", static)}, ""},
	"others may read":  {"eno1", fstest.MapFS{dir + "a.nmconnection": {Data: profile("a", "11111111", "ethernet", "eno1", second).Data, Mode: 0o644}, dir + "b.nmconnection": profile("b", "22222222", "ethernet", "eno1", static)}, ""},
	"two of one uuid":  {"eno1", fstest.MapFS{dir + "a.nmconnection": dated(profile("a", "11111111", "ethernet", "eno1", second), 1), dir + "b.nmconnection": dated(profile("b", "11111111", "ethernet", "eno1", static), 2)}, ""},
	"on another bus":   {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "22222222", "ethernet", "eno1", "autoconnect-priority=5\n\n[match]\npath=pci-0000:99:00.0;\n"+second), dir + "b.nmconnection": profile("b", "11111111", "ethernet", "eno1", static)}, "may get this profile"},
	"not this address": {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "22222222", "ethernet", "eno1", "autoconnect-priority=5\n\n[ethernet]\nmac-address-blacklist=02:00:00:00:00:01;\n"+second), dir + "b.nmconnection": profile("b", "11111111", "ethernet", "eno1", static)}, ""},
	"not this name":    {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "22222222", "ethernet", "", "autoconnect-priority=5\n\n[match]\ninterface-name=eno*;!eno1;\n"+second), dir + "b.nmconnection": profile("b", "11111111", "ethernet", "eno1", static)}, ""},
	"for a login":      {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "22222222", "ethernet", "eno1", "autoconnect-priority=5\npermissions=user:me:;\n"+second), dir + "b.nmconnection": profile("b", "11111111", "ethernet", "eno1", static)}, ""},
	"no keyfile":       {"eno1", fstest.MapFS{dir + "a.nmconnection": profile("a", "22222222", "ethernet", "eno1", "autoconnect-priority=5\n;remark\n"+second), dir + "b.nmconnection": profile("b", "11111111", "ethernet", "eno1", static)}, ""},
	"a bridge":         {"br0", fstest.MapFS{dir + "br0.nmconnection": profile("br0", "11111111", "bridge", "br0", "\n[bridge]\nstp=false\n"+static), dir + "port.nmconnection": profile("port", "22222222", "ethernet", "eno2", slave)}, ""},
	"a port without":   {"br0", fstest.MapFS{dir + "br0.nmconnection": profile("br0", "11111111", "bridge", "br0", "\n[bridge]\nstp=false\n"+static), dir + "port.nmconnection": profile("port", "22222222", "ethernet", "eno2", "autoconnect=false\n"+slave)}, "by itself"},
	"a bridge of 9000": {"br0", fstest.MapFS{dir + "br0.nmconnection": profile("br0", "11111111", "bridge", "br0", "\n[bridge]\nstp=false\n"+static), dir + "port.nmconnection": profile("port", "22222222", "ethernet", "eno2", slave+"\n[ethernet]\nmtu=9000\n")}, ""},
}

// asides are further files of other programs.
var asides = []struct{ path, text string }{
	{},
	{dir + "other.nmconnection", string(profile("other", "33333333", "ethernet", "eno3", second).Data)},
	{"etc/NetworkManager/conf.d/10-mtu.conf", "[connection-all]\nethernet.mtu=1300\n"},
	{"etc/NetworkManager/conf.d/zzz-mtu.conf", "[connection-eno1]\nmatch-device=interface-name:eno1\nethernet.mtu=1350\n"},
	{dir + "late.nmconnection", string(profile("late", "44444444", "ethernet", "eno1", "autoconnect-priority=-5\n"+second).Data)},
}

// running starts NetworkManager in network and mount namespaces of its own, with a bus of its
// own, and prints how the kernel and nmcli show the interfaces then.
//
//go:embed testdata/running.sh
var running string

// manage returns the interfaces of a tree after NetworkManager has started.
func manage(t *testing.T, root fs.FS) map[string]string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range []string{"etc/NetworkManager", "run/NetworkManager"} {
		filestest.Put(t, dir, root, part)
		must.Do(t, filepath.WalkDir(filepath.Join(dir, part), func(name string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil // a tree without that folder
			}
			info := must.Get(fs.Stat(root, must.Get(filepath.Rel(dir, name))(t)))(t)
			if age := time.Since(info.ModTime()); !info.ModTime().IsZero() && age > 0 {
				must.Do(t, os.Chtimes(name, info.ModTime(), info.ModTime()))
			}
			return os.Chmod(name, info.Mode().Perm())
		}))
	}
	cmd := referee.Command(t, "sh", "-c", running, "sh", dir, referee.Program(t, "NetworkManager"), referee.Program(t, "nmcli"))
	text, active, _ := filestest.InNamespaces(t, cmd)
	var links []struct {
		Name      string `json:"ifname"`
		MTU       int    `json:"mtu"`
		Master    string `json:"master"`
		Addresses []struct {
			Local string `json:"local"`
		} `json:"addr_info"`
	}
	must.Dof(t, json.Unmarshal([]byte(text), &links), "%s", text)
	all := map[string]string{"active": active}
	for _, l := range links {
		if l.Name != "lo" && !strings.HasPrefix(l.Name, "peer") {
			all[l.Name], all[files.LinkKey(l.Name, "link.mtu")] = fmt.Sprint(l.Master, l.Addresses), fmt.Sprint(l.MTU)
		}
	}
	return all
}

// TestRunning draws machines and has NetworkManager bring them up without and with the
// proposed file: the MTU of the one interface and of its ports differs, and nothing else.
func TestRunning(t *testing.T) {
	must.SkipIf(t, os.Geteuid() != 0, "needs root for a mount namespace")
	nm := referee.Program(t, "NetworkManager")
	_, err := exec.LookPath("dbus-daemon")
	must.SkipIf(t, err != nil, "no dbus-daemon is installed")
	if err := referee.Command(t, nm, "--version").Run(); err != nil {
		t.Skipf("its libraries are missing: %v", err)
	}
	random := rand.New(rand.NewPCG(26, 11))
	names := slices.Sorted(maps.Keys(machines))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	proven, refused := 0, 0
	for i := range must.Often(3, 44) {
		name := names[i%len(names)]
		m, aside := machines[name], asides[random.IntN(len(asides))]
		root := maps.Clone(m.files)
		if aside.path != "" {
			root[aside.path] = file(aside.text)
		}
		h := host(root, referee.Version(t, nm))
		h.Devices[2].Name, h.Devices[2].Kind = "br0", "bridge"
		if m.link == "br0" {
			h.Devices[1].Master = "br0"
		}
		p, err := files.Propose(t.Context(), networkmanager.Format{}, h, files.Request{Link: m.link, Settings: []files.Setting{{Knob: "link.mtu", Value: "9000"}}})
		if _, ok := errors.AsType[*files.Refusal](err); ok {
			refused++
			t.Logf("%s beside %q: refused: %v", name, aside.path, err)
			must.True(t, aside.path != "" || m.refused != "" && strings.Contains(err.Error(), m.refused), "%s: refused: %v", name, err)
			continue
		}
		must.Dof(t, err, "%s beside %q", name, aside.path)
		proven++
		before, after := manage(t, root), manage(t, files.Overlay(root, p.Files))
		want := maps.Clone(before)
		maps.Copy(want, p.Want)
		must.True(t, maps.Equal(want, after) && (!maps.Equal(before, after) || name == "a bridge of 9000"), "%s beside %q:\nwithout %q\nwith    %q\n%s", name, aside.path, before, after, p.Files[0].Content)
	}
	filestest.Record(t, filestest.Row{Format: "NetworkManager", Program: "NetworkManager " + referee.Version(t, nm), Remark: ", running", Proven: proven, Refused: refused})
}
