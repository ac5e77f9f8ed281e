package netplan_test

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/netplan"
	"linerate/internal/host/files/tree"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// rounds is how often each way of owning the interface is drawn.
var rounds = must.Often(1, 10)

// owners are the ways to define the interface of a tree.
// Each has eno1 and eno2, of which eno1 has the address 02:00:00:00:00:01.
var owners = map[string]struct {
	link, text string
	kernel     string // the kernel's name of eno1; "" if udev renamed it
	refused    string // part of the refusal for a plain tree; "" if it is proven
}{
	"plain":           {"eno1", "ethernets: {eno1: {dhcp4: true}}", "eno1", ""},
	"plain static":    {"eno1", "ethernets: {eno1: {addresses: [192.0.2.5/24], routes: [{to: default, via: 192.0.2.1}]}}", "eno1", ""},
	"renamed by udev": {"eno1", "ethernets: {eno1: {dhcp4: true, dhcp6: true}}", "", ""},
	"with mtu":        {"eno1", "ethernets: {eno1: {addresses: [192.0.2.5/24], mtu: 1400}}", "eno1", ""},
	"set-name":        {"eno1", "ethernets: {lan: {match: {macaddress: '02:00:00:00:00:01'}, set-name: eno1, dhcp4: true}}", "", ""},
	"by MAC":          {"eno1", "ethernets: {lan: {match: {macaddress: '02:00:00:00:00:01'}, dhcp4: true}}", "", "matched without set-name"},
	"by driver":       {"eno1", "ethernets: {lan: {match: {driver: e1000e}, dhcp4: true}}", "eno1", "about more devices"},
	"by glob":         {"eno1", "ethernets: {lan: {match: {name: 'en*'}, dhcp4: true}}", "eno1", "about more devices"},
	"by name":         {"eno1", "ethernets: {lan: {match: {name: eno1}, dhcp4: true}}", "eno1", ""},
	"bond":            {"bond0", "{ethernets: {eno1: {}, eno2: {}}, bonds: {bond0: {interfaces: [eno1, eno2], addresses: [192.0.2.3/24], parameters: {mode: active-backup}}}}", "eno1", ""},
	"bond with VLAN":  {"bond0", "{ethernets: {eno1: {}, eno2: {}}, bonds: {bond0: {interfaces: [eno1, eno2], dhcp4: true}}, vlans: {bond0.7: {id: 7, link: bond0, addresses: [198.51.100.2/24]}}}", "eno1", ""},
	"bond by MAC":     {"bond0", "{ethernets: {a: {match: {macaddress: '02:00:00:00:00:01'}, set-name: eno1}, b: {match: {macaddress: '02:00:00:00:00:02'}, set-name: eno2}}, bonds: {bond0: {interfaces: [a, b], dhcp4: true}}}", "", ""},
	"VLAN by MAC":     {"eno1.7", "{ethernets: {lan: {match: {macaddress: '02:00:00:00:00:01'}, set-name: eno1, dhcp4: true}}, vlans: {eno1.7: {id: 7, link: lan, addresses: [192.0.2.6/24]}}}", "", ""},
	"port of a bond":  {"eno1", "{ethernets: {eno1: {}, eno2: {}}, bonds: {bond0: {interfaces: [eno1, eno2], dhcp4: true}}}", "eno1", "is a port of the bond bond0"},
	"bond of a glob":  {"bond0", "{ethernets: {ports: {match: {name: 'eno*'}}}, bonds: {bond0: {interfaces: [ports], dhcp4: true}}}", "eno1", "about more devices"},
	"bridge":          {"br0", "{ethernets: {eno1: {}}, bridges: {br0: {interfaces: [eno1], addresses: [192.0.2.4/24], parameters: {stp: false}}}}", "eno1", ""},
	"VLAN":            {"eno1.7", "{ethernets: {eno1: {dhcp4: true}}, vlans: {eno1.7: {id: 7, link: eno1, addresses: [192.0.2.6/24]}}}", "eno1", ""},
	"under a VLAN":    {"eno1", "{ethernets: {eno1: {dhcp4: true}}, vlans: {eno1.7: {id: 7, link: eno1, addresses: [192.0.2.6/24]}}}", "eno1", ""},
	"two owners":      {"eno1", "ethernets: {lan: {match: {macaddress: '02:00:00:00:00:01'}, set-name: eno1, dhcp4: true}, eno1: {addresses: [192.0.2.5/24]}}", "", "defined twice"},
	"no owner":        {"eno1", "ethernets: {eno2: {dhcp4: true}}", "eno1", "does not define eno1"},
	"NetworkManager":  {"eno1", "{renderer: NetworkManager, ethernets: {eno1: {dhcp4: true}}}", "eno1", ""},
	"NM bond":         {"bond0", "{renderer: NetworkManager, ethernets: {eno1: {}, eno2: {}}, bonds: {bond0: {interfaces: [eno1, eno2], dhcp4: true}}}", "eno1", ""},
	"later version":   {"eno1", "ethernets: {eno1: {dhcp4: true, ra-overrides: {use-domains: true}}}", "eno1", "netplan refuses its files"},
	"wrong":           {"eno1", "{ethernets: {eno1: {dhcp4: true}}, bonds: {bond0: {interfaces: [eno9]}}}", "eno1", "netplan refuses its files"},
	"wake on LAN":     {"eno1", "ethernets: {eno1: {dhcp4: true, wakeonlan: true}}", "eno1", ""},
}

// besides are further files of a tree.
var besides = []struct{ name, path, text string }{
	{},
	{},
	{"earlier", "usr/lib/netplan/00-vendor.yaml", "network: {version: 2, ethernets: {eno1: {mtu: 1400}, eno2: {optional: true}}}"},
	{"later", "etc/netplan/90-site.yaml", "network: {version: 2, ethernets: {eno2: {mtu: 1300}}}"},
	{"hidden", "run/netplan/01-owner.yaml", "network: {version: 2, ethernets: {eno2: {dhcp4: true}}}"},
	{"last", "etc/netplan/zzz.yaml", "network: {version: 2, ethernets: {eno1: {mtu: 1450}}}"},
	{"the owner's .link", "etc/systemd/network/20-card.link", "[Match]\nOriginalName=eno1\n[Link]\nNamePolicy=keep\nRxBufferSize=512\nMTUBytes=1600\n"},
	{"the owner's .link by address", "etc/systemd/network/20-card.link", "[Match]\nPermanentMACAddress=02:00:00:00:00:01\n[Link]\nName=eno1\nTxBufferSize=256\n"},
	{"a hidden file", "etc/netplan/.old.yaml", "network: {version: 2, ethernets: {eno1: {mtu: 1300}}, bonds: {eno1: {dhcp6: true}}}"},
	{"a .network before", "etc/systemd/network/05-lan.network", "[Match]\nName=eno1\n[Network]\nDHCP=yes\n"},
	{"a drop-in behind", "etc/systemd/network/10-netplan-eno1.network.d/90-site.conf", "[Link]\nMTUBytes=1350\n"},
}

const defaultLink = "[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\n"

// draw returns a random tree. plain means that it has only the owner's definition.
func draw(random *rand.Rand, name string) (root fstest.MapFS, beside string) {
	o := owners[name]
	network := o.text
	if !strings.HasPrefix(network, "{") {
		network = "{" + network + "}"
	}
	root = fstest.MapFS{
		"etc/netplan/01-owner.yaml":               {Data: []byte("network: {version: 2, " + network[1:] + "\n"), Mode: 0o600},
		"usr/lib/systemd/network/99-default.link": {Data: []byte(defaultLink), Mode: 0o644},
	}
	b := besides[random.IntN(len(besides))]
	if b.path != "" {
		root[b.path] = &fstest.MapFile{Data: []byte(b.text), Mode: 0o600}
	}
	master := map[bool]string{true: "bond0"}[strings.Contains(network, "bond0: {interfaces: [")]
	filestest.Add(root, filestest.Device{Name: "eno1", Kernel: o.kernel, Index: 2, MAC: "02:00:00:00:00:01", Driver: "e1000e", Master: master, Link: "/usr/lib/systemd/network/99-default.link"})
	filestest.Add(root, filestest.Loopback)
	filestest.Add(root, filestest.Device{Name: "eno2", Kernel: "eno2", Index: 3, MAC: "02:00:00:00:00:02", Driver: "e1000e", Master: master})
	if strings.Contains(network, "NetworkManager") || random.IntN(2) == 0 { // as it is, or not made yet
		for i, d := range []filestest.Device{{Name: "bond0", Kind: "bond"}, {Name: "br0", Kind: "bridge"}, {Name: "eno1.7", Kind: "vlan", Parent: "eno1"}, {Name: "bond0.7", Kind: "vlan", Parent: "bond0"}} {
			if strings.Contains(network, d.Name+":") {
				d.Index, d.MAC, d.Kernel = 4+i, "02:00:00:00:00:01", d.Name
				filestest.Add(root, d)
			}
		}
	}
	return root, b.name
}

// generate has the real generator make its files, and returns these with all other network
// files.
func generate(t *testing.T, root fs.FS) (made map[string]string, said string, ok bool) {
	t.Helper()
	program := referee.Program(t, "/usr/libexec/netplan/generate", "/lib/netplan/generate")
	dir := t.TempDir()
	filestest.Put(t, dir, root, "etc/netplan", "usr/lib/netplan", "run/netplan")
	out, err := referee.Command(t, program, "--root-dir", dir).CombinedOutput()
	made = make(map[string]string)
	walk := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasPrefix(name, "run/") || strings.HasPrefix(name, "run/netplan/") {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		made[name] = string(b)
		return err
	})
	must.Do(t, walk)
	for _, where := range []string{"etc/systemd/network", "usr/lib/systemd/network"} {
		filestest.Put(t, dir, root, where)
	}
	return made, string(out), err == nil
}

// settled returns the lines of a unit file and its drop-ins.
func settled(root fs.FS, name, text string) []string {
	var all []string
	t := tree.Tree{Root: root}
	lines := strings.Split(text, "\n")
	for _, f := range t.ByName(".conf", "etc/"+strings.TrimPrefix(name, "run/")+".d") {
		lines = append(lines, strings.Split(string(t.Read(f)), "\n")...)
	}
	for _, l := range lines {
		key, _, _ := strings.Cut(l, "=")
		ours := key == "MTUBytes" || key == "mtu" || strings.HasSuffix(key, "Offload")
		if l != "" && l[0] != '#' && l[0] != '[' && !ours {
			all = append(all, l)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// harm compares what the generator makes without and with linerate's files; it returns "" if
// only the settings differ.
func harm(t *testing.T, root fstest.MapFS, written []files.File) string {
	t.Helper()
	with := files.Overlay(root, written)
	before, _, ok := generate(t, root)
	if !ok {
		return "it was proposed to a netplan that refuses its files"
	}
	after, said, ok := generate(t, with)
	if !ok {
		return "netplan refuses everything: " + said
	}
	for name, text := range before {
		if _, there := after[name]; !there {
			return name + " is gone"
		}
		if b, a := settled(root, name, text), settled(with, name, after[name]); !slices.Equal(a, b) {
			return fmt.Sprintf("%s: %q becomes %q", name, b, a)
		}
	}
	for name, text := range after {
		if _, there := before[name]; there {
			continue
		}
		if !strings.HasSuffix(name, ".link") {
			return name + " is new"
		}
		// A new .link file replaces the one that matched before, by the interface's name or
		// address, and must have the same content.
		stood := "usr/lib/systemd/network/99-default.link"
		if own := root["etc/systemd/network/20-card.link"]; own != nil && !strings.Contains(name, "eno2") {
			stood = "etc/systemd/network/20-card.link"
		}
		want := settled(root, "none", string(root[stood].Data))
		got := slices.DeleteFunc(settled(with, name, text), func(l string) bool {
			return l == "WakeOnLan=off" || strings.HasPrefix(l, "OriginalName=") || strings.HasPrefix(l, "PermanentMACAddress=")
		})
		want = slices.DeleteFunc(want, func(l string) bool {
			return strings.HasPrefix(l, "OriginalName=") || strings.HasPrefix(l, "PermanentMACAddress=")
		})
		if !slices.Equal(got, want) {
			return fmt.Sprintf("%s says %q, and %s said %q", name, got, stood, want)
		}
	}
	return ""
}

// ask is the real generator.
func ask(t *testing.T) files.Asker {
	t.Helper()
	referee.Program(t, "/usr/libexec/netplan/generate", "/lib/netplan/generate")
	libs, _ := filepath.Glob(filepath.Join(referee.Root(), "usr/lib/*-linux-gnu"))
	if referee.Root() == "" {
		return files.Programs("")
	}
	return files.Programs(referee.Root(), "LD_LIBRARY_PATH="+strings.Join(libs, ":"))
}

// TestMatrix draws trees and has netplan's generator make its files without and with the
// proposed file: only the setting may differ, or the proposal is refused with the file and
// line that prevents it.
func TestMatrix(t *testing.T) {
	program := ask(t)
	random := rand.New(rand.NewPCG(26, 11))
	names := slices.Sorted(maps.Keys(owners))
	proven, refused := map[string]int{}, map[string]int{}
	for i := range rounds * len(names) {
		name := names[i%len(names)]
		o := owners[name]
		root, beside := draw(random, name)
		r := files.Request{Link: o.link, Head: []string{"why"}, Settings: []files.Setting{{Knob: "link.mtu", Value: "9000", Name: "mtu", Remarks: []string{"largest packet"}}}}
		if strings.Contains(o.link, "eno1") && o.kernel == "eno1" && random.IntN(3) == 0 && !strings.Contains(name, "VLAN") {
			r.Settings = []files.Setting{{Knob: "nic.offload.gro", Value: "0", Name: "gro"}, {Knob: "nic.offload.tso", Value: "0", Name: "tso"}}
		}
		p, err := files.Propose(t.Context(), netplan.Format{}, filestest.Host(root, program), r)
		if refusal, ok := errors.AsType[*files.Refusal](err); ok {
			refused[name]++
			t.Logf("%s beside %q: %v", name, beside, err)
			must.True(t, refusal.File != "" || strings.Contains(err.Error(), "does not define") || strings.Contains(err.Error(), "there is no interface"), "tree %d, %s beside %q: the refusal names no file: %v", i, name, beside, err)
			must.True(t, beside != "" || o.refused != "" && strings.Contains(err.Error(), o.refused), "tree %d, %s: refused: %v", i, name, err)
			continue
		}
		must.Dof(t, err, "tree %d, %s beside %q", i, name, beside)
		proven[name]++
		must.True(t, beside != "" || o.refused == "" || name == "port of a bond" && r.Settings[0].Knob != "link.mtu", "tree %d, %s: proven", i, name)
		what := harm(t, root, p.Files)
		must.True(t, what == "", "tree %d, %s beside %q: harmed: %s\n%s", i, name, beside, what, filestest.Text(p.Files))
		must.True(t, r.Settings[0].Knob != "link.mtu" || has9000(t, files.Overlay(root, p.Files), o.link), "tree %d, %s beside %q: no MTU of 9000\n%s", i, name, beside, filestest.Text(p.Files))
	}
	t.Logf("proven %v, refused %v", proven, refused)
	sum := func(m map[string]int) (n int) {
		for _, one := range m {
			n += one
		}
		return n
	}
	filestest.Record(t, filestest.Row{Format: "netplan", Program: "netplan " + version(t), Remark: " (its generator; every file that it makes is compared)", Proven: sum(proven), Refused: sum(refused)})
}

// TestTwoInterfaces: keeping settings of a second interface, or others of the first, leaves
// those that were kept before.
func TestTwoInterfaces(t *testing.T) {
	program := ask(t)
	root := fstest.MapFS{
		"etc/netplan/01-owner.yaml":               {Data: []byte("network: {version: 2, ethernets: {eno1: {dhcp4: true}, eno2: {dhcp4: true}}}\n"), Mode: 0o600},
		"usr/lib/systemd/network/99-default.link": {Data: []byte(defaultLink), Mode: 0o644},
	}
	filestest.Add(root, filestest.Device{Name: "eno1", Kernel: "eno1", Index: 2, MAC: "02:00:00:00:00:01", Driver: "e1000e"})
	filestest.Add(root, filestest.Device{Name: "eno2", Kernel: "eno2", Index: 3, MAC: "02:00:00:00:00:02", Driver: "e1000e"})
	for _, r := range []files.Request{
		{Link: "eno1", Settings: []files.Setting{{Knob: "link.mtu", Value: "9000", Name: "mtu"}}}, {Link: "eno2", Settings: []files.Setting{{Knob: "link.mtu", Value: "1400", Name: "mtu"}}},
		{Link: "eno1", Settings: []files.Setting{{Knob: "nic.offload.tso", Value: "0", Name: "tso"}}},
	} {
		p := must.Get(files.Propose(t.Context(), netplan.Format{}, filestest.Host(root, program), r))(t)
		for _, f := range p.Files {
			root[strings.TrimPrefix(f.Path, "/")] = &fstest.MapFile{Data: f.Content, Mode: f.Mode}
		}
	}
	made, said, ok := generate(t, root)
	must.Need(t, ok, "%s", said)
	for file, want := range map[string]string{"eno1.network": "MTUBytes=9000", "eno2.network": "MTUBytes=1400", "eno1.link": "TCPSegmentationOffload=false"} {
		must.Contain(t, made["run/systemd/network/10-netplan-"+file], want, file)
	}
}

// version returns the version of the generator's package, as the generator has none itself.
func version(t *testing.T) string {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("/", referee.Root(), "usr/share/doc/netplan.io/changelog.Debian.gz")))(t)
	defer f.Close()
	first := must.Get(bufio.NewReader(must.Get(gzip.NewReader(f))(t)).ReadString('\n'))(t)
	_, rest, _ := strings.Cut(first, "(")
	is, _, _ := strings.Cut(rest, "-")
	return is
}

// has9000 reports whether the generator gives an interface the MTU.
func has9000(t *testing.T, root fs.FS, link string) bool {
	t.Helper()
	made, _, _ := generate(t, root)
	for name, text := range made {
		if strings.Contains(text, "Name="+link+"\n") && strings.Contains(text, "MTUBytes=9000") || strings.HasSuffix(name, ".nmconnection") && strings.Contains(text, "mtu=9000") {
			return true
		}
	}
	return false
}
