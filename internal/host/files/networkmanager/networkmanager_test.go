package networkmanager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/host/files/tree"
	"linerate/internal/host/referee"
	"linerate/internal/must"
)

// trees is how many to draw.
var trees = must.Often(8, 60)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o600} }

const (
	dir   = "etc/NetworkManager/system-connections/"
	owner = "[connection]\nid=lan\nuuid=11111111-2222-3333-4444-555555555555\ntype=ethernet\ninterface-name=eno1\n\n[ipv4]\nmethod=manual\naddress1=192.0.2.5/24\n"
)

// host is a machine with an interface eno1 and a bond.
func host(root fstest.MapFS, version string) files.Host {
	h := files.Host{Root: root, System: "linux", Devices: []device.Device{
		{Name: "eno1", Index: "2", Type: "ether", Hardware: true, MAC: "02:00:00:00:00:01"}, {Name: "eno2", Index: "3", Type: "ether", Hardware: true}, {Name: "bond0", Index: "4", Type: "ether", Kind: "bond"},
	}}
	if version != "" {
		h.Ask = func(_ context.Context, _ fs.FS, q files.Question) (files.Answer, error) {
			if q.Args[0] == "--version" {
				return files.Answer{Text: "nmcli tool, version " + version + "\n"}, nil
			}
			return files.Answer{}, fmt.Errorf("no profiles are read here: %w", errors.ErrUnsupported)
		}
	}
	return h
}

// rival is a profile of eno1 with a higher priority than owner.
func rival(more string) *fstest.MapFile {
	return file(strings.Replace(strings.Replace(owner, "1111", "9999", 1), "\n\n", "\nautoconnect-priority=5\n"+more+"\n", 1))
}

// TestPlan: which file is written, or which line prevents it.
func TestPlan(t *testing.T) {
	mtu := []files.Setting{{Knob: "link.mtu", Value: "9000"}}
	ring := []files.Setting{{Knob: "nic.ring.rx", Value: "4096"}, {Knob: "txqueuelen", Value: "2000"}}
	for name, c := range map[string]struct {
		files    fstest.MapFS
		settings []files.Setting
		version  string
		want     string // "PATH: PART", or the beginning of the refusal, or "omitted REASON"
	}{
		"the owner's profile": {fstest.MapFS{dir + "lan.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "lan.nmconnection: \n[ethernet]\nmtu=9000\n"},
		"in the place of its mtu": {fstest.MapFS{dir + "lan.nmconnection": file(owner + "[ethernet]\nmtu=1400\nwake-on-lan=64\n")}, mtu, "1.42.4",
			"/" + dir + "lan.nmconnection: [ethernet]\nmtu=9000\nwake-on-lan=64\n"},
		"under the old name":     {fstest.MapFS{dir + "lan.nmconnection": file(owner + "[802-3-ethernet]\nmtu=1400\n")}, mtu, "1.42.4", "/" + dir + "lan.nmconnection: [802-3-ethernet]\nmtu=9000\n"},
		"of the running version": {fstest.MapFS{dir + "lan.nmconnection": file(owner)}, ring, "1.42.4", "/" + dir + "lan.nmconnection: \n[ethtool]\nring-rx=4096\n"},
		"that a version lacks":   {fstest.MapFS{dir + "lan.nmconnection": file(owner)}, ring[1:], "1.42.4", "omitted needs NetworkManager 1.44; 1.42 is installed"},
		"that a version has":     {fstest.MapFS{dir + "lan.nmconnection": file(owner)}, ring[1:], "1.52.1", "/" + dir + "lan.nmconnection: \n[link]\ntx-queue-length=2000\n"},
		"a queueing discipline":  {fstest.MapFS{dir + "lan.nmconnection": file(owner)}, []files.Setting{{Knob: "qdisc", Name: "kind", Value: "fq"}}, "1.42.4", "omitted tc.qdiscs would give"},
		"of no known version":    {fstest.MapFS{dir + "lan.nmconnection": file(owner)}, ring[:1], "", "omitted needs NetworkManager 1.26, and nmcli does not say"},
		"no profile in /etc":     {fstest.MapFS{}, mtu, "1.42.4", "/etc/NetworkManager/conf.d/zz-linerate-eno1.conf: [connection-linerate-eno1]\nmatch-device=interface-name:eno1\nethernet.mtu=9000\n"},
		"another default":        {fstest.MapFS{"etc/NetworkManager/conf.d/a.conf": file("[connection]\nethernet.mtu=1400\n")}, mtu, "1.42.4", "refused"},
		"more than the MTU":      {fstest.MapFS{}, ring, "1.42.4", "/etc/NetworkManager/system-connections: no profile"},
		"netplan's": {fstest.MapFS{"run/NetworkManager/system-connections/netplan-eno1.nmconnection": file(owner)}, mtu, "1.42.4",
			"/run/NetworkManager/system-connections/netplan-eno1.nmconnection:2: netplan makes"},
		"two that may win": {fstest.MapFS{dir + "a.nmconnection": file(owner), dir + "b.nmconnection": file(strings.Replace(owner, "1111", "9999", 1))}, mtu, "1.42.4", "/" + dir + "b.nmconnection:2: eno1 may get"},
		"the one with priority": {fstest.MapFS{dir + "a.nmconnection": file(owner), dir + "b.nmconnection": file(strings.Replace(strings.Replace(owner, "1111", "9999", 1), "type=", "autoconnect-priority=5\ntype=", 1))},
			mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"the one that was used last": {fstest.MapFS{dir + "a.nmconnection": file(owner), dir + "b.nmconnection": file(strings.Replace(owner, "1111", "9999", 1)),
			"var/lib/NetworkManager/timestamps": file("[timestamps]\n11111111-2222-3333-4444-555555555555=5\n99991111-2222-3333-4444-555555555555=4\n")}, mtu, "1.42.4", "/" + dir + "a.nmconnection: mtu=9000"},
		"the newest of one uuid":          {fstest.MapFS{dir + "a.nmconnection": {Data: []byte(owner), Mode: 0o600, ModTime: time.Unix(1, 0)}, dir + "b.nmconnection": {Data: []byte(owner), Mode: 0o600, ModTime: time.Unix(2, 0)}}, mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"one that may be for another bus": {fstest.MapFS{dir + "a.nmconnection": rival("\n[match]\npath=pci-0000:99:00.0;\n"), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "a.nmconnection:2: eno1 may get"},
		"of another boot entry":           {fstest.MapFS{dir + "a.nmconnection": rival("\n[match]\nkernel-command-line=x;\n"), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "a.nmconnection:2: eno1 may get"},
		"not of this name":                {fstest.MapFS{dir + "a.nmconnection": rival("\n[match]\ninterface-name=eno*;!eno1;\n"), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"not of this address":             {fstest.MapFS{dir + "a.nmconnection": rival("\n[ethernet]\nmac-address-blacklist=02:00:00:00:00:09;02:00:00:00:00:01;\n"), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"that waits for a login":          {fstest.MapFS{dir + "a.nmconnection": rival("permissions=user:me:;\n"), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"that GLib refuses":               {fstest.MapFS{dir + "a.nmconnection": rival(";remark\n"), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"of mkstemp":                      {fstest.MapFS{dir + "a.nmconnection.Ab12Cd": rival(""), dir + "b.nmconnection": file(owner)}, mtu, "1.42.4", "/" + dir + "b.nmconnection: mtu=9000"},
		"a default that is turned off":    {fstest.MapFS{"etc/NetworkManager/conf.d/a.conf": file("[.config]\nenable=false\n[connection]\nethernet.mtu=1400\n")}, mtu, "1.42.4", "/etc/NetworkManager/conf.d/zz-linerate-eno1.conf: ethernet.mtu=9000"},
		"that others can read":            {fstest.MapFS{dir + "a.nmconnection": &fstest.MapFile{Data: []byte(owner), Mode: 0o644}}, mtu, "1.42.4", "/etc/NetworkManager/conf.d/"},
		"for every card": {fstest.MapFS{dir + "a.nmconnection": file(strings.Replace(owner, "interface-name=eno1\n", "", 1)), "run/NetworkManager/devices/2": file("[device]\nconnection-uuid=11111111-2222-3333-4444-555555555555\n"),
			"run/NetworkManager/devices/3": file("[device]\nconnection-uuid=11111111-2222-3333-4444-555555555555\n")}, mtu, "1.42.4", "/" + dir + "a.nmconnection:11: link.mtu of eno2 would become 9000"},
		"unmanaged": {fstest.MapFS{dir + "a.nmconnection": file(owner), "run/NetworkManager/devices/2": file("[device]\nmanaged=false\n")}, mtu, "1.42.4", "/run/NetworkManager/devices/2:2: "},
		"unmanaged by a list": {fstest.MapFS{dir + "a.nmconnection": file(owner), "etc/NetworkManager/NetworkManager.conf": file("[keyfile]\nunmanaged-devices=none\n"),
			"etc/NetworkManager/conf.d/a.conf": file("[keyfile]\nunmanaged-devices=interface-name:eno*;except:interface-name:eno2\n")}, mtu, "1.42.4", "/etc/NetworkManager/conf.d/a.conf:2: NetworkManager leaves eno1 alone"},
		"a list that another one replaces": {fstest.MapFS{dir + "lan.nmconnection": file(owner), "etc/NetworkManager/NetworkManager.conf": file("[keyfile]\nunmanaged-devices=*\n"),
			"etc/NetworkManager/conf.d/a.conf": file("[keyfile]\nunmanaged-devices=none\n")}, mtu, "1.42.4", "/" + dir + "lan.nmconnection: mtu=9000"},
		"ifcfg": {fstest.MapFS{"etc/sysconfig/network-scripts/ifcfg-eno1": file("TYPE=Ethernet\nDEVICE=eno1\n")}, mtu, "1.42.4", "/etc/sysconfig/network-scripts/ifcfg-eno1:2: "},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := files.Propose(t.Context(), networkmanager.Format{}, host(c.files, c.version), files.Request{Link: "eno1", Settings: c.settings})
			var refusal *files.Refusal
			path, part, _ := strings.Cut(c.want, ": ")
			reason, omitted := strings.CutPrefix(c.want, "omitted ")
			switch {
			case errors.As(err, &refusal):
				must.True(t, c.want == "refused" || strings.HasPrefix(refusal.Error(), c.want), "%v, want %s", refusal, c.want)
			case err != nil:
				t.Error(err)
			case omitted:
				must.True(t, len(p.Omitted) == 1 && strings.HasPrefix(p.Omitted[0].Reason, reason) && len(p.Files) == 0, "%+v", p.Draft)
			case len(p.Files) != 1 || !strings.HasPrefix(p.Files[0].Path, path) || !strings.Contains(string(p.Files[0].Content), part):
				t.Errorf("%+v, want %s", p.Files, c.want)
			}
		})
	}
}

// drawn returns a random profile, in the styles of users and programs.
func drawn(random *rand.Rand) (text, link string) {
	link = []string{"eno1", "bond0"}[random.IntN(2)]
	text = "[connection]\nid=some " + link + "\nuuid=11111111-2222-3333-4444-555555555555\ntype=" + map[string]string{"eno1": "ethernet", "bond0": "bond"}[link] + "\ninterface-name=" + link + "\n"
	text += []string{"", "autoconnect-priority=7\n", "permissions=\n"}[random.IntN(3)]
	if link == "bond0" {
		text += "\n[bond]\nmode=active-backup\nmiimon=100\n"
	}
	text += []string{"", "\n[ethernet]\n", "\n[ethernet]\nmtu=1400\n", "\n# mine\n[ethernet]\nwake-on-lan=64\n\n", "\n[802-3-ethernet]\ncloned-mac-address=02:00:00:00:00:09\nmtu=1350\n"}[random.IntN(5)]
	text += []string{"", "\n[ethtool]\nring-rx=512\nfeature-tso=false\n", "\n[ethtool]\ncoalesce-rx-usecs=20\n"}[random.IntN(3)]
	text += []string{"\n[ipv4]\nmethod=auto\n", "\n[ipv4]\naddress1=192.0.2.5/24,192.0.2.1\ndns=192.0.2.1;\nmethod=manual\n"}[random.IntN(2)]
	text += []string{"", "\n[ipv6]\nmethod=disabled\n", "\n[ipv6]\naddr-gen-mode=stable-privacy\nmethod=auto\n\n[proxy]"}[random.IntN(3)]
	return text, link
}

// said returns a profile as nmcli reads and rewrites it, by section and key.
func said(t *testing.T, nmcli, text string) map[string]string {
	t.Helper()
	cmd := referee.Command(t, nmcli, "--offline", "connection", "modify", "connection.autoconnect-retries", "-1")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	must.Need(t, err == nil, "%v\n%s", err, text)
	all := make(map[string]string)
	profile, _ := tree.Tree{Root: fstest.MapFS{"said": file(string(out))}}.Keyfile("said")
	for _, e := range profile {
		all[e.Section+"."+e.Key] = e.Text
	}
	return all
}

// TestMatrix draws profiles, and has nmcli read each without and with the change: exactly the
// settings differ.
func TestMatrix(t *testing.T) {
	nmcli := referee.Program(t, "nmcli")
	random := rand.New(rand.NewPCG(26, 11))
	for i := range trees {
		text, link := drawn(random)
		h := host(fstest.MapFS{dir + "a.nmconnection": file(text)}, "")
		var libraries []string
		for _, one := range referee.Command(t, nmcli).Env {
			if strings.HasPrefix(one, "LD_LIBRARY_PATH=") {
				libraries = append(libraries, one)
			}
		}
		h.Ask = files.Programs(strings.TrimSuffix(nmcli, "/usr/bin/nmcli"), libraries...)
		r := files.Request{Link: link, Settings: []files.Setting{{Knob: "link.mtu", Value: "9000"}, {Knob: "nic.ring.rx", Value: "4096"}, {Knob: "nic.offload.gro", Value: "1"}}}
		p, err := files.Propose(t.Context(), networkmanager.Format{}, h, r)
		if err != nil || len(p.Files) != 1 || len(p.Omitted) > 0 {
			t.Errorf("tree %d: %+v, %v\n%s", i, p.Draft, err, text)
			continue
		}
		want := said(t, nmcli, text)
		want["ethernet.mtu"], want["ethtool.ring-rx"], want["ethtool.feature-gro"] = "9000", "4096", "true"
		got := said(t, nmcli, string(p.Files[0].Content))
		for key := range want {
			must.True(t, got[key] == want[key], "tree %d: %s is %q, want %q\n%s", i, key, got[key], want[key], p.Files[0].Content)
		}
		must.Equal(t, len(got), len(want), "tree %d: %v, want %v", i, got, want)
	}
	filestest.Record(t, filestest.Row{Format: "keyfiles", Program: "nmcli " + referee.Version(t, nmcli), Remark: ", offline", Proven: trees})
}
