package networkd_test

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/networkd"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// trees is how many to draw for each kind of file.
var trees = must.Often(3, 60)

const (
	etc = "etc/systemd/network/"
	usr = "usr/lib/systemd/network/"
	lan = "[Match]\nName=eno1\n[Network]\nLinkLocalAddressing=no\nAddress=192.0.2.5/24\n"
	// other is for eno2 if no other file is.
	other    = "[Match]\nName=eno2\n[Network]\nLinkLocalAddressing=no\nAddress=198.51.100.5/24\n"
	byMAC    = "[Match]\nPermanentMACAddress=02:00:00:00:00:01\n"
	port     = "[Match]\nName=eno2\n[Network]\nLinkLocalAddressing=no\nBridge=br0\n"
	macvlan  = "[NetDev]\nName=mv0\nKind=macvlan\n[MACVLAN]\nMode=bridge\n"
	bridge   = "[NetDev]\nName=br0\nKind=bridge\n"
	bridgeIP = "[Match]\nName=br0\n[Network]\nLinkLocalAddressing=no\nConfigureWithoutCarrier=yes\nAddress=203.0.113.5/24\n"
	vendor   = "[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep kernel database onboard slot path\nAlternativeNamesPolicy=database onboard slot path\nMACAddressPolicy=persistent\n"
)

// owners are the ways in which files match the interface to set.
var owners = map[string]struct {
	link    string
	files   map[string]string
	kernel  string // the kernel's name of eno1; "" for eno1
	refused string // for the MTU; "" if it is proven without further files
	mtu     string // "" for 9000
}{
	"by name":           {link: "eno1", files: map[string]string{etc + "20-lan.network": lan}},
	"in /run":           {link: "eno1", files: map[string]string{"run/systemd/network/20-lan.network": lan}},
	"in /usr/lib":       {link: "eno1", files: map[string]string{usr + "20-lan.network": lan}},
	"hides one":         {link: "eno1", files: map[string]string{etc + "20-lan.network": lan, usr + "20-lan.network": lan + "[Link]\nMTUBytes=1300\n"}},
	"masked":            {link: "eno1", files: map[string]string{etc + "20-lan.network": "", usr + "20-lan.network": lan + "[Link]\nMTUBytes=1300\n", usr + "30-lan.network": lan}},
	"by address":        {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "Name=eno1", "MACAddress=02:00:00:00:00:01", 1)}},
	"by two":            {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "Name=eno1", "Name=eno1\nType=ether", 1)}},
	"a further name":    {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "eno1", "card0", 1), etc + "20-card.link": byMAC + "[Link]\nAlternativeName=card0\n", etc + "30-lan.network": strings.ReplaceAll(lan, "192.0.2.5", "192.0.2.9")}},
	"a negated line":    {link: "eno1", files: map[string]string{etc + "10-lan.network": "[Match]\nName=eno*\nName=!eno1 !eno2\n[Link]\nMTUBytes=1300\n", etc + "20-lan.network": lan}},
	"not one letter":    {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "eno1", "eno[!2]", 1) + "[Link]\nMTUBytes=1300\n"}, refused: "more than eno1"},
	"hidden":            {link: "eno1", files: map[string]string{etc + ".10-lan.network": lan + "[Link]\nMTUBytes=1300\n", etc + "20-lan.network": lan}},
	"no MTU":            {link: "eno1", files: map[string]string{etc + "20-lan.network": lan + "Description=ends in \\ \n[Link]\nMTUBytes=1400\nMTUBytes=\nMTUBytes=big\n"}},
	"a macvlan":         {link: "mv0", files: map[string]string{etc + "20-lan.network": lan + "MACVLAN=mv0\n", etc + "25-mv0.netdev": macvlan, etc + "30-mv0.network": strings.ReplaceAll(bridgeIP, "br0", "mv0")}},
	"under a macvlan":   {link: "eno1", files: map[string]string{etc + "20-lan.network": lan + "MACVLAN=mv0\n", etc + "25-mv0.netdev": macvlan, etc + "30-mv0.network": strings.ReplaceAll(bridgeIP, "br0", "mv0")}},
	"two owners":        {link: "eno1", files: map[string]string{etc + "20-lan.network": lan, etc + "30-lan.network": strings.ReplaceAll(lan, "192.0.2.5", "192.0.2.9")}},
	"has an MTU":        {link: "eno1", files: map[string]string{etc + "20-lan.network": lan + "[Link]\nMTUBytes=1K\n"}},
	"by glob":           {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "eno1", "eno*", 1)}, refused: "more than eno1"},
	"by type":           {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "Name=eno1", "Type=ether\nName=!peer*", 1)}, refused: "more than eno1"},
	"by driver":         {link: "eno1", files: map[string]string{etc + "20-lan.network": strings.Replace(lan, "Name=eno1", "Driver=veth\nName=!peer*", 1)}, refused: "more than eno1"},
	"no owner":          {link: "eno1"},
	"the owner's .link": {link: "eno1", files: map[string]string{etc + "20-lan.network": lan, etc + "20-card.link": byMAC + "[Link]\nTransmitQueueLength=500\nMTUBytes=1600\n"}},
	".link alone":       {link: "eno1", files: map[string]string{etc + "20-card.link": byMAC + "[Link]\nTransmitQueueLength=500\nMTUBytes=1600\n"}},
	"renamed":           {link: "eno1", kernel: "eth5", files: map[string]string{etc + "20-lan.network": lan, etc + "20-card.link": byMAC + "[Link]\nName=eno1\n"}},
	"renamed by name":   {link: "eno1", kernel: "eth5", files: map[string]string{etc + "20-lan.network": lan, etc + "20-card.link": "[Match]\nOriginalName=eth5\n[Link]\nName=eno1\n"}},
	"a bridge":          {link: "br0", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP, etc + "30-port.network": port}},
	"a bridge with MTU": {link: "br0", files: map[string]string{etc + "25-br0.netdev": bridge + "MTUBytes=1400\n", etc + "25-br0.network": bridgeIP, etc + "30-port.network": port}},
	"the one port":      {link: "eno2", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP, etc + "30-port.network": port}, refused: "smallest port"},
	"one of two ports":  {link: "eno2", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP, etc + "30-port.network": port, etc + "31-port.network": strings.Replace(port, "eno2", "eno1", 1)}},
	"of a stated MTU":   {link: "eno2", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP + "[Link]\nMTUBytes=1500\n", etc + "30-port.network": port}, refused: "1500 or 9000"},
	"of a smaller MTU":  {link: "eno2", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP + "[Link]\nMTUBytes=1400\n", etc + "30-port.network": port}},
	"two ports":         {link: "br0", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP, etc + "30-port.network": port, etc + "31-port.network": strings.Replace(port, "eno2", "eno1", 1)}},
	"a lower port":      {link: "eno2", mtu: "1400", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP + "[Link]\nMTUBytes=1450\n", etc + "30-port.network": port}},
	"a lower bridge":    {link: "br0", mtu: "1400", files: map[string]string{etc + "25-br0.netdev": bridge, etc + "25-br0.network": bridgeIP, etc + "30-port.network": port}},
	"renamed otherwise": {link: "eno1", kernel: "eth5", files: map[string]string{etc + "20-lan.network": lan, etc + "20-card.link": byMAC + "[Link]\nName=lan0\n"}, refused: "that name"},
}

// besides are further files, of other programs.
var besides = []struct{ path, text string }{
	{},
	{},
	{usr + "10-vendor.network", lan},
	{etc + "05-other.network", other},
	{usr + "80-all.network", "[Match]\nName=eno* eth*\n[Network]\nLinkLocalAddressing=no\n[Link]\nMTUBytes=1450\n"},
	{usr + "20-lan.network.d/40-vendor.conf", "[Link]\nMTUBytes=1350\n"},
	{usr + "20-lan.network.d/90-site.conf", "[Link]\nMTUBytes=1360\n"},
	{"run/systemd/network/20-lan.network.d/60-lease.conf", "[Network]\nAddress=192.0.2.77/24\n"},
	{usr + "20-card.link.d/90-site.conf", "[Link]\nTransmitQueueLength=700\n"},
	{usr + "05-cards.link", "[Match]\nDriver=veth\n[Link]\nTransmitQueueLength=800\n"},
	{usr + "50-cards.link", "[Match]\nOriginalName=eno1\n[Link]\nTransmitQueueLength=900\nGenericReceiveOffload=false\n"},
}

func draw(random *rand.Rand, name string) (root fstest.MapFS, beside string) {
	o := owners[name]
	root = fstest.MapFS{usr + "99-default.link": {Data: []byte(vendor)}}
	for file, text := range o.files {
		root[file] = &fstest.MapFile{Data: []byte(text)}
	}
	if o.link == "eno1" && random.IntN(2) == 0 {
		root[etc+"40-other.network"] = &fstest.MapFile{Data: []byte(other)}
	}
	if b := besides[random.IntN(len(besides))]; b.path != "" {
		root[b.path], beside = &fstest.MapFile{Data: []byte(b.text)}, b.path
	}
	d := filestest.Device{Name: "eno1", Kernel: "eno1", Index: 11, MAC: "02:00:00:00:00:01", Driver: "veth"}
	if o.kernel != "" { // a card that udev renamed, by that file
		d.Kernel, d.Link = "", "/"+etc+"20-card.link"
	}
	filestest.Add(root, d)
	filestest.Add(root, filestest.Loopback)
	filestest.Add(root, filestest.Device{Name: "eno2", Kernel: "eno2", Index: 12, MAC: "02:00:00:00:00:02", Driver: "veth"})
	return root, beside
}

// start boots a machine: udev sets up both cards, and systemd-networkd all interfaces. It
// ends when nothing is being configured any more. Pairs of veth stand in for cards. They have
// no permanent address, so MACAddress= is used instead.
//
//go:embed testdata/start.sh
var start string

// judge boots the machine of a tree and returns its state, by keys of the outcome.
func judge(t *testing.T, root fstest.MapFS, kernel string, written []files.File) map[string]string {
	t.Helper()
	dir := t.TempDir()
	tree := files.Overlay(root, written)
	filestest.Put(t, dir, tree, "etc/systemd/network", "usr/lib/systemd/network", "run/systemd/network", "run/udev/data")
	must.Do(t, filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return errors.Join(err, os.Chmod(name, 0o755))
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(name, []byte(strings.ReplaceAll(string(b), "PermanentMACAddress=", "MACAddress=")), 0o644), os.Chmod(name, 0o644))
	}))
	networkd := referee.Program(t, "/usr/lib/systemd/systemd-networkd", "/lib/systemd/systemd-networkd")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", start, "sh", dir, kernel, networkd, referee.Program(t, "udevadm"))
	text, rest, talk := filestest.InNamespaces(t, cmd)
	var links []struct {
		Name      string   `json:"ifname"`
		MTU       int      `json:"mtu"`
		Queue     int      `json:"txqlen"`
		Flags     []string `json:"flags"`
		Master    string   `json:"master"`
		Address   string   `json:"address"`
		Addresses []struct {
			Local  string `json:"local"`
			Length int    `json:"prefixlen"`
		} `json:"addr_info"`
	}
	must.Dof(t, json.Unmarshal([]byte(text), &links), "%s", text)
	all := map[string]string{"udev": talk}
	for _, l := range links {
		if l.Name == "lo" || strings.HasPrefix(l.Name, "peer") {
			continue
		}
		all[files.LinkKey(l.Name, "link.mtu")], all[files.LinkKey(l.Name, "txqueuelen")] = strconv.Itoa(l.MTU), strconv.Itoa(l.Queue)
		state := fmt.Sprintf("up %t, of %q", slices.Contains(l.Flags, "UP"), l.Master)
		for _, a := range l.Addresses {
			state += fmt.Sprintf(", %s/%d", a.Local, a.Length)
		}
		all["link/"+l.Name] = state
	}
	features := strings.Split(strings.TrimSpace(rest), "\n")
	for i, l := range features {
		what, is, _ := strings.Cut(strings.TrimSpace(l), ": ")
		id := map[string]model.KnobID{"tx-tcp-segmentation": "nic.offload.tso", "generic-segmentation-offload": "nic.offload.gso", "generic-receive-offload": "nic.offload.gro"}[what]
		link := []string{"eno1", "eno2"}[i/3]
		all[files.LinkKey(link, id)] = map[bool]string{true: "1", false: "0"}[strings.HasPrefix(is, "on")]
	}
	return all
}

// TestMatrix draws trees, has udev and systemd-networkd bring up each machine without and
// with the proposed files, and compares the states: exactly the settings differ, or the
// proposal is refused. It also compares the machine's MTUs with the outcome.
func TestMatrix(t *testing.T) {
	must.SkipIf(t, os.Geteuid() != 0, "needs root for a mount namespace")
	for _, kind := range []string{".network", ".link"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(26, 11))
			names := slices.Sorted(maps.Keys(owners))
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			proven, refused := 0, 0
			for i := range trees {
				if one(t, random, names[i%len(names)], kind) {
					proven++
				} else {
					refused++
				}
			}
			networkd := referee.Version(t, referee.Program(t, "/usr/lib/systemd/systemd-networkd", "/lib/systemd/systemd-networkd"))
			row := filestest.Row{Format: kind, Program: "systemd-networkd " + networkd, Remark: ", all interfaces brought up", Proven: proven, Refused: refused}
			if kind == ".link" {
				row.Program, row.Remark = "udevadm "+referee.Version(t, referee.Program(t, "udevadm")), ", net_setup_link; a pair of veth is the card, its address the permanent one"
			}
			filestest.Record(t, row)
		})
	}
}

// one draws a tree of an owner and tests it. proven is false if the settings are refused.
func one(t *testing.T, random *rand.Rand, name, kind string) (proven bool) {
	t.Helper()
	o := owners[name]
	root, beside := draw(random, name)
	r := files.Request{Link: o.link, Settings: []files.Setting{{Knob: "link.mtu", Value: cmp.Or(o.mtu, "9000"), Name: "mtu"}}}
	if kind == ".link" {
		if o.link == "br0" || o.link == "mv0" {
			r.Link = "eno1"
		}
		r.Settings = []files.Setting{{Knob: "txqueuelen", Value: "2000", Name: "txqueuelen"}, {Knob: "nic.offload.tso", Value: "0", Name: "tso"}, {Knob: "nic.offload.gro", Value: "1", Name: "gro"}}
	}
	kernel := map[bool]string{true: "eno1", false: o.kernel}[o.kernel == ""]
	host := filestest.Host(root, nil)
	before := judge(t, root, kernel, nil)
	compare(t, name+" beside "+beside, must.Get(networkd.Format{}.Outcome(t.Context(), host))(t), before)
	p, err := files.Propose(t.Context(), networkd.Format{}, host, r)
	if refusal, ok := errors.AsType[*files.Refusal](err); ok {
		t.Logf("%s beside %q: refused: %v", name, beside, err)
		must.True(t, refusal.File != "" && (beside != "" || kind != ".network" || o.refused != "" && strings.Contains(err.Error(), o.refused)),
			"%s beside %q: refused: %v", name, beside, err)
		return false
	}
	must.Dof(t, err, "%s beside %q", name, beside)
	after := judge(t, root, kernel, p.Files)
	want := maps.Clone(before)
	maps.Copy(want, p.Want)
	delete(want, files.LinkKey(r.Link, "nic.offload.tso")+"/TCP6SegmentationOffload") // a part of the feature
	want["udev"] = after["udev"]                                                      // linerate's .link file has another name
	must.True(t, maps.Equal(want, after) && !maps.Equal(before, after), "%s beside %q:\nwithout %v\nwith    %v\nwant    %v\n%s", name, beside, before, after, want, filestest.Text(p.Files))
	compare(t, name+" beside "+beside+" with ours", p.Outcome, after)
	return true
}

// compare compares an outcome with a machine, as far as the outcome covers it.
func compare(t *testing.T, name string, o files.Outcome, machine map[string]string) {
	t.Helper()
	for key, is := range machine {
		if l, said := o.Values[key]; said && !slices.Contains(strings.Split(l.Text, " or "), is) { // two if it depends on the initramfs
			t.Errorf("%s: %s is %s, and the outcome says %s", name, key, is, l.Text)
		}
	}
}
