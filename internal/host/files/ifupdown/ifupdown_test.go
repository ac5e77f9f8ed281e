package ifupdown_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/ifupdown"
	"linerate/internal/must"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

const (
	main  = "etc/network/interfaces"
	owner = "auto eno1\niface eno1 inet static\n    address 192.0.2.5/24\n"
)

// TestPlan: which place is taken, or which line prevents the change.
func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  string // path of the file and a part of it, or the refusal's file, line and a part
	}{
		"a file of ours behind the owner's": {fstest.MapFS{main: file(owner + "source interfaces.d/*\n")}, "/etc/network/interfaces.d/linerate: \n    mtu 9000\n"},
		"a file of ours before the owner's": {fstest.MapFS{main: file("source /etc/network/interfaces.d/*\n" + owner)},
			"/etc/network/interfaces.d/linerate: \n    pre-up ip link set dev eno1 mtu 9000 || true\n"},
		"before an owner's mtu": {fstest.MapFS{main: file("source /etc/network/interfaces.d/*\n" + owner + "    mtu 1400\n")}, "/etc/network/interfaces: \n    mtu 9000\n"},
		"no source line":        {fstest.MapFS{main: file(owner)}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"another pattern":       {fstest.MapFS{main: file(owner + "source interfaces.d/*.cfg\n")}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"words in a comment":    {fstest.MapFS{main: file("# source /etc/network/interfaces.d/*\n" + owner)}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"dhcp": {fstest.MapFS{main: file("auto eno1\niface eno1 inet dhcp\n# do it in the web interface of Proxmox\n")},
			"/etc/network/interfaces: inet dhcp\n    pre-up ip link set dev eno1 mtu 9000 || true\n"},
		"Proxmox":               {fstest.MapFS{main: file(owner), "usr/share/perl5/PVE/INotify.pm": file("")}, "/etc/network/interfaces: iface eno1 inet static\n    mtu 9000\n    address"},
		"ifupdown2":             {fstest.MapFS{main: file(owner), "usr/share/ifupdown2/x": file("")}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"ifupdown2 with an mtu": {fstest.MapFS{main: file(owner + "    mtu 1400\n"), "usr/share/ifupdown2/x": file("")}, "/etc/network/interfaces: \n    mtu 9000\n"},
		"ifupdown-ng":           {fstest.MapFS{main: file(owner + "    mtu 1400\n"), "etc/network/ifupdown-ng.conf": file("")}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"the part of a bridge":  {fstest.MapFS{main: file("iface eno1 inet manual\nauto br0\niface br0 inet manual\n bridge-ports eno1\n")}, "/etc/network/interfaces:1: no auto line"},
		"that ifupdown2 brings up": {fstest.MapFS{main: file("iface eno1 inet manual\nauto br0\niface br0 inet manual\n bridge-ports eno1\n"), "usr/share/ifupdown2/x": file("")},
			"/etc/network/interfaces: # BEGIN linerate\n"},
		"not defined":          {fstest.MapFS{main: file("auto lo\niface lo inet loopback\n")}, "/etc/network/interfaces:0: no iface line"},
		"a pattern of a shell": {fstest.MapFS{main: file(owner + "source ~/more\n")}, "/etc/network/interfaces:4: "},
		"a folder as a source": {fstest.MapFS{main: file(owner + "source /etc/network/interfaces.d\n"), "etc/network/interfaces.d/lan": file("auto lo\n")}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"a misplaced option":   {fstest.MapFS{main: file("mtu 1400\n" + owner)}, "/etc/network/interfaces:1: "},
		"a template":           {fstest.MapFS{main: file("template base\n" + owner)}, "/etc/network/interfaces:1: "},
		"an MTU twice":         {fstest.MapFS{main: file(owner + "    mtu 1400\n    mtu 1300\n")}, "/etc/network/interfaces:5: "},
		"a mapping":            {fstest.MapFS{main: file(owner + "mapping eno1\n script /x\n")}, "/etc/network/interfaces:4: "},
		"the same by another": {fstest.MapFS{main: file("source interfaces.d/*\n" + owner), "etc/network/interfaces.d/z": file("iface eno1 inet manual\n mtu 1400\n")},
			"/etc/network/interfaces: # BEGIN linerate\n"},
		"of an earlier time": {fstest.MapFS{main: file(owner + "# BEGIN linerate\niface eno1 inet manual\n    mtu 4000\n# END linerate\n")}, "/etc/network/interfaces: # BEGIN linerate\n"},
		"and something behind it": {fstest.MapFS{main: file(owner + "# BEGIN linerate\niface eno1 inet manual\n    mtu 4000\n# END linerate\niface eno1 inet manual\n mtu 1400\n post-up ip link set eno1 mtu 1300\n")},
			"/etc/network/interfaces:11: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := files.Request{Link: "eno1", Settings: []files.Setting{{Knob: "link.mtu", Value: "9000"}, {Name: "net.core.rmem_max", Text: "1"}}}
			p, err := files.Propose(t.Context(), ifupdown.Format{}, files.Host{Root: c.files, System: "linux"}, r)
			at, part, _ := strings.Cut(c.want, ": ")
			var refusal *files.Refusal
			switch {
			case errors.As(err, &refusal):
				got := refusal.Error()
				must.True(t, strings.HasPrefix(got, strings.TrimSuffix(at, ":0")+": "+part), "%s, want %s", got, c.want)
			case err != nil || len(p.Files) != 1:
				t.Errorf("%+v, %v", p, err)
			case p.Files[0].Path != at || !strings.Contains(string(p.Files[0].Content), part):
				t.Errorf("%s:\n%s\nwant %s", p.Files[0].Path, p.Files[0].Content, c.want)
			}
		})
	}
}

// with returns a tree with files in place.
func with(t *testing.T, root fstest.MapFS, written []files.File) fstest.MapFS {
	t.Helper()
	all := maps.Clone(root)
	for _, f := range written {
		name := strings.TrimPrefix(f.Path, "/")
		text := f.Content
		if old, ok := root[name]; ok && f.Block {
			var err error
			text, err = files.Merge(old.Data, text)
			must.Do(t, err)
		}
		all[name] = &fstest.MapFile{Data: text}
	}
	return all
}

// TestMembers: keeping a bridge or a VLAN also writes what its ports and its parent need,
// also a second time, or names the line that prevents it.
func TestMembers(t *testing.T) {
	const ports = "auto eno1 eno2 br0\niface eno1 inet manual\niface eno2 inet manual\niface br0 inet static\n    bridge_ports eno1 eno2\n    address 192.0.2.6/24\n"
	const vlan = "iface eno1 inet manual\niface eno1.7 inet static\n    vlan-raw-device eno1\n    address 192.0.2.8/24\n"
	for name, c := range map[string]struct{ text, link, want string }{
		"a block":               {ports, "br0", "iface eno1 inet manual\n    # the MTU of br0 needs it\n    mtu 9000\niface eno2 inet manual\n    # the MTU of br0 needs it\n    mtu 9000\niface br0 inet manual\n    mtu 9000\n"},
		"the owner's stanzas":   {"# in the web interface of Proxmox\n" + ports, "br0", "iface eno1 inet manual\n    mtu 9000\niface eno2 inet manual\n    mtu 9000\niface br0 inet static\n    mtu 9000\n"},
		"a VLAN":                {"auto eno1 eno1.7\n" + vlan, "eno1.7", "iface eno1 inet manual\n    # the MTU of eno1.7 needs it\n    mtu 9000\niface eno1.7 inet manual\n    mtu 9000\n"},
		"a VLAN before":         {"auto eno1.7\nauto eno1\n" + vlan, "eno1.7", "/etc/network/interfaces:2: eno1 comes up behind eno1.7"},
		"a port that has none":  {strings.Replace(ports, "iface eno2 inet manual\n", "", 1), "br0", "/etc/network/interfaces: no iface line defines eno2"},
		"a port not brought up": {strings.Replace(ports, "eno1 eno2 br0", "eno1 br0", 1), "br0", "/etc/network/interfaces:3: no auto line brings eno2 up"},
	} {
		root := fstest.MapFS{main: file(c.text)}
		for range 2 {
			filestest.Add(root, filestest.Device{Name: "eno1", Kernel: "eno1", Index: 2, Driver: "e1000e", Master: map[bool]string{true: "br0"}[c.link == "br0"]})
			filestest.Add(root, filestest.Device{Name: "eno2", Kernel: "eno2", Index: 3, Driver: "e1000e", Master: "br0"})
			filestest.Add(root, filestest.Device{Name: "br0", Kernel: "br0", Index: 4, Kind: "bridge"})
			filestest.Add(root, filestest.Device{Name: "eno1.7", Kernel: "eno1.7", Index: 5, Kind: "vlan", Parent: "eno1"})
			p, err := files.Propose(t.Context(), ifupdown.Format{}, filestest.Host(root, nil), files.Request{Link: c.link, Settings: []files.Setting{{Knob: "link.mtu", Value: "9000"}}})
			if _, ok := errors.AsType[*files.Refusal](err); ok {
				must.Contain(t, err.Error(), c.want, name)
				break
			}
			must.Do(t, err)
			root = with(t, root, p.Files)
			must.Contain(t, string(root[main].Data), c.want, name)
		}
	}
}

// TestAnotherTime: lines of an earlier keep may be removed.
func TestAnotherTime(t *testing.T) {
	root := fstest.MapFS{main: file(owner + "# BEGIN linerate\niface eno1 inet manual\n    mtu 4000\n# END linerate\n")}
	r := files.Request{Link: "eno1", Settings: []files.Setting{{Knob: "txqueuelen", Value: "2000"}}}
	p := must.Get(files.Propose(t.Context(), ifupdown.Format{}, files.Host{Root: root, System: "linux"}, r))(t)
	must.True(t, len(p.Files) == 1 && p.Files[0].Block, "%+v", p)
}

// TestAgain: a second keep replaces the lines of the first.
func TestAgain(t *testing.T) {
	root := fstest.MapFS{main: file("# in the web interface of Proxmox\n" + owner)}
	for _, value := range []string{"4096", "2048"} {
		r := files.Request{Link: "eno1", Settings: []files.Setting{{Knob: "nic.ring.rx", Value: value}}}
		p := must.Get(files.Propose(t.Context(), ifupdown.Format{}, files.Host{Root: root, System: "linux"}, r))(t)
		root[main] = file(string(p.Files[0].Content))
	}
	got := string(root[main].Data)
	must.True(t, strings.Count(got, "ethtool") == 1 && strings.Contains(got, "static\n    pre-up ethtool -G eno1 rx 2048 || true\n"), "%s", got)
}

// TestTwoInterfaces: keeping settings of a second interface leaves those of the first, in the
// file and in the block.
func TestTwoInterfaces(t *testing.T) {
	for _, source := range []string{"", "source interfaces.d/*\n"} {
		root := fstest.MapFS{main: file(owner + "auto eno2\niface eno2 inet static\n    address 198.51.100.5/24\n" + source)}
		for _, link := range []string{"eno1", "eno2", "eno1"} {
			r := files.Request{Link: link, Settings: []files.Setting{{Knob: "link.mtu", Value: "9000"}, {Knob: "nic.ring.rx", Value: "4096"}}}
			p := must.Get(files.Propose(t.Context(), ifupdown.Format{}, files.Host{Root: root, System: "linux"}, r))(t)
			root = with(t, root, p.Files)
		}
		c := ifupdown.Read(root)
		for _, link := range []string{"eno1", "eno2"} {
			must.True(t, c.Settings(link)["link.mtu"].Text == "9000" && c.Settings(link)["nic.ring.rx"].Text == "4096" && len(c.Stanzas) == 4, "%s: %+v", link, c)
		}
	}
}

// TestHookOfEthtool: the hook of Debian's package ethtool runs after the commands of up, and
// reads these options.
func TestHookOfEthtool(t *testing.T) {
	c := ifupdown.Read(fstest.MapFS{"etc/network/interfaces": {Data: []byte("iface eth0 inet manual\n" +
		" hardware-dma-ring-rx 4096\n hardware-irq-coalesce-rx-usecs 20\n ethernet-pause-rx on\n offload-tso off\n link-speed 100\n ethernet-autoneg off\n" +
		" up ethtool -K eth0 tso on\n up sysctl -w net.ipv4.tcp_sack=0\n ethernet-coalesce-rx-usecs 30\n")}})
	got := c.Settings("eth0")
	for id, want := range map[model.KnobID]string{
		"nic.ring.rx": "4096", "nic.coalesce.rx_usecs": "20", "nic.pause.rx": "1", "nic.offload.tso": "0", "nic.media.speed": "100", "nic.media.autoneg": "0",
	} {
		must.Equal(t, got[id].Text, want, "%s: %+v", id, got[id])
	}
	sysctls := lists.Count(c.Statements("eth0"), func(s ifupdown.Statement) bool {
		return s.Sysctl == "net.ipv4.tcp_sack" && s.Text == "0" && s.Number == 9
	})
	must.Equal(t, sysctls, 1, "lines set the sysctl")
}
