package networkd_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/lists"
	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/networkd"
	"linerate/internal/must"
)

// TestPlan: a setting goes into a drop-in of the file that wins now, or the refusal names the
// file and line that prevents it.
func TestPlan(t *testing.T) {
	const owner = "[Match]\nName=eno1\n[Network]\nAddress=192.0.2.5/24\n"
	const vendor = "[Match]\nOriginalName=*\n[Link]\nNamePolicy=keep kernel\n"
	mtu := files.Setting{Knob: "link.mtu", Value: "9000", Name: "mtu"}
	ring := files.Setting{Knob: "nic.ring.rx", Value: "4096", Name: "rings.rx"}
	for name, c := range map[string]struct {
		tree    map[string]string
		setting files.Setting
		path    string // of the one file
		says    string // part of it, or of the refusal
		refused string // FILE:LINE
	}{
		"drop-in":          {map[string]string{"etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/20-owner.network.d/50-linerate.conf", "[Link]\nMTUBytes=9000", ""},
		"owner in run":     {map[string]string{"run/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/20-owner.network.d/50-linerate.conf", "[Link]\nMTUBytes=9000", ""},
		"a later drop-in":  {map[string]string{"etc/systemd/network/20-owner.network": owner, "usr/lib/systemd/network/20-owner.network.d/90-site.conf": "[Link]\nMTUBytes=1360\n"}, mtu, "", "would be 1360", "/usr/lib/systemd/network/20-owner.network.d/90-site.conf:2"},
		"unmanaged":        {map[string]string{"etc/systemd/network/20-owner.network": owner + "[Link]\nUnmanaged=yes\n"}, mtu, "", "link.mtu of eno1 would be 1500", "/etc/systemd/network/20-owner.network:6"},
		"a glob":           {map[string]string{"etc/systemd/network/20-all.network": "[Match]\nName=en*\n[Network]\nDHCP=yes\n"}, mtu, "", "more than eno1", "/etc/systemd/network/20-all.network:2"},
		"earlier wins":     {map[string]string{"etc/systemd/network/20-owner.network": owner, "usr/lib/systemd/network/10-x.network": owner}, mtu, "/etc/systemd/network/10-x.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"the owner's link": {map[string]string{"etc/systemd/network/20-card.link": "[Match]\nPermanentMACAddress=02:00:00:00:00:01\n[Link]\nName=eno1\n"}, ring, "/etc/systemd/network/20-card.link.d/50-linerate.conf", "RxBufferSize=4096", ""},
		"default link":     {nil, ring, "/etc/systemd/network/10-linerate-eno1.link", "NamePolicy=keep kernel\n\nRxBufferSize=4096", ""},
		"link of a type":   {map[string]string{"etc/systemd/network/20-all.link": "[Match]\nType=ether\n[Link]\nNamePolicy=path\n"}, ring, "", "more than eno1", "/etc/systemd/network/20-all.link:2"},
		"a hidden file":    {map[string]string{"etc/systemd/network/.10-x.network": owner, "etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/20-owner.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"not one letter":   {map[string]string{"etc/systemd/network/10-x.network": "[Match]\nName=eno[!2]\n", "etc/systemd/network/20-owner.network": owner}, mtu, "", "more than eno1", "/etc/systemd/network/10-x.network:2"},
		"a negated line":   {map[string]string{"etc/systemd/network/10-x.network": "[Match]\nName=en*\nName=!eno1 !eno2\n", "etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/20-owner.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"negated before":   {map[string]string{"etc/systemd/network/10-x.network": "[Match]\nName=!wl*\nName=eno1\n", "etc/systemd/network/20-owner.network": owner}, mtu, "", "more than eno1", "/etc/systemd/network/10-x.network:2"},
		"of no kind":       {map[string]string{"etc/systemd/network/10-x.network": "[Match]\nKind=!*\nName=eno1\n", "etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/10-x.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"a further name":   {map[string]string{"etc/systemd/network/10-card.link": "[Match]\nOriginalName=eno1\n[Link]\nAlternativeName=card0\n", "etc/systemd/network/10-x.network": "[Match]\nName=card0\n", "etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/10-x.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"one of a policy":  {map[string]string{"usr/lib/systemd/network/99-default.link": vendor + "AlternativeNamesPolicy=database mac\n", "etc/systemd/network/10-x.network": "[Match]\nName=enx020000000001\n", "etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/10-x.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"a broken heading": {map[string]string{"etc/systemd/network/10-x.network": "[Match] # mine\nName=eno1\n", "etc/systemd/network/20-owner.network": owner}, mtu, "/etc/systemd/network/20-owner.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"no .network":      {nil, mtu, "/etc/systemd/network/10-linerate-eno1.link", "MTUBytes=9000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"usr/lib/systemd/network/99-default.link": {Data: []byte(vendor)}}
			for file, text := range c.tree {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			filestest.Add(root, filestest.Device{Name: "eno1", Kernel: "eno1", Index: 2, MAC: "02:00:00:00:00:01", Driver: "e1000e"})
			filestest.Add(root, filestest.Loopback)
			p, err := files.Propose(t.Context(), networkd.Format{}, filestest.Host(root, nil), files.Request{Link: "eno1", Settings: []files.Setting{c.setting}})
			if _, ok := errors.AsType[*files.Refusal](err); ok {
				must.True(t, c.refused != "" && strings.HasPrefix(err.Error(), c.refused+": ") && strings.Contains(err.Error(), c.says), "refused: %v", err)
				return
			}
			must.True(t, err == nil && c.refused == "" && len(p.Files) == 1 && p.Files[0].Path == c.path && strings.Contains(string(p.Files[0].Content), c.says), "%+v, %v", p.Files, err)
			must.True(t, !strings.Contains(c.path, ".d/") || !strings.Contains(string(p.Files[0].Content), "[Match]"), "a drop-in matches")
		})
	}
}

// TestOutcome: an MTU that is no number counts for nothing, and the card of a container wakes
// no machine.
func TestOutcome(t *testing.T) {
	for text, want := range map[string]string{
		"MTUBytes=1400\nMTUBytes=\n": "1400", "MTUBytes=1400\nMTUBytes=big\n": "1400", "MTUBytes=1400 # why\n": "1500", "MTUBytes=60\n": "1500", "MTUBytes=1.5K\n": "1536",
	} {
		root := fstest.MapFS{"etc/systemd/network/20-lan.network": {Data: []byte("[Match]\nName=eth0\n[Link]\n" + text)}}
		filestest.Add(root, filestest.Device{Name: "eth0", Kernel: "eth0", Index: 2})
		o := networkd.Outcome(filestest.Host(root, nil), "rules")
		must.Equal(t, o.Values["link/eth0/link.mtu"].Text, want, "%q", text)
		must.Equal(t, o.Values["link/eth0/nic.wol"].Text, "off")
	}
}

// TestSteps: the devices whose MTU changes with one, in the order in which they are raised.
func TestSteps(t *testing.T) {
	network := func(name, more string) string { return "[Match]\nName=" + name + "\n[Network]\n" + more }
	netdev := func(name, kind string) string { return "[NetDev]\nName=" + name + "\nKind=" + kind + "\n" }
	stack := map[string]string{ // br0 on bond0 on eno1 and eno2, with a port tap0 and the VLANs 7 and 8
		"10-eno1.network": network("eno1", "Bond=bond0\n"), "11-eno2.network": network("eno2", "Bond=bond0\n"),
		"12-bond0.netdev": netdev("bond0", "bond"), "12-bond0.network": network("bond0", "Bridge=br0\n"),
		"13-tap0.netdev": netdev("tap0", "tap"), "13-tap0.network": network("tap0", "Bridge=br0\n"),
		"14-br0.netdev": netdev("br0", "bridge"), "14-br0.network": network("br0", "VLAN=br0.7\nVLAN=br0.8\n"),
		"15-v7.netdev": netdev("br0.7", "vlan"), "15-v7.network": network("br0.7", "DHCP=yes\n"),
		"16-v8.netdev": netdev("br0.8", "vlan"), "16-v8.network": network("br0.8", "DHCP=yes\n[Link]\nMTUBytes=1400\n"),
		"17-eno4.network": network("eno4", "MACVLAN=mv0\n"), "18-mv0.netdev": netdev("mv0", "macvlan"), "18-mv0.network": network("mv0", "DHCP=yes\n"),
		"20-eno3.network": network("eno3", "Bridge=br1\n"), // br1 states its MTU
		"21-br1.netdev":   netdev("br1", "bridge"), "21-br1.network": network("br1", "VLAN=br1.9\n[Link]\nMTUBytes=1499\n"),
		"22-v9.netdev": netdev("br1.9", "vlan"), "22-v9.network": network("br1.9", "DHCP=yes\n"),
	}
	for ask, want := range map[string]string{
		"br0 9000":   "eno1=9000 eno2=9000 bond0=9000 tap0=9000 br0=9000 br0.7 keeps 1500",
		"br0.7 9000": "eno1=9000 eno2=9000 bond0=9000 tap0=9000 br0=9000 br0.7=9000",
		"bond0 9000": "eno1=9000 eno2=9000 bond0=9000",
		"eno1 9000":  "eno1 is a port of the bond bond0",
		"none 9000":  "there is no interface none",
		"br0 1450":   "br0.7=1450 br0=1450",
		"br0 1300":   "br0.7=1300 br0.8=1300 br0=1300",
		"br0.7 1300": "br0.7=1300",
		"tap0 1300":  "tap0 is a port of the bridge br0, which takes the MTU of its smallest port: it would get 1300",
		"eno3 1300":  "br1.9=1300 br1=1300 eno3=1300",
		"mv0 9000":   "eno4=9000 mv0=9000",
		"eno4 9000":  "eno4=9000 mv0 keeps 1500",
	} {
		link, mtu, _ := strings.Cut(ask, " ")
		root := fstest.MapFS{}
		for name, text := range stack {
			root["etc/systemd/network/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		filestest.Add(root, filestest.Device{Name: "eno1", Kernel: "eno1", Index: 2, MAC: "02:00:00:00:00:01", Driver: "e1000e"})
		filestest.Add(root, filestest.Device{Name: "eno2", Kernel: "eno2", Index: 3, MAC: "02:00:00:00:00:02", Driver: "e1000e"})
		filestest.Add(root, filestest.Device{Name: "eno3", Kernel: "eno3", Index: 4, MAC: "02:00:00:00:00:03", Driver: "e1000e"})
		filestest.Add(root, filestest.Device{Name: "eno4", Kernel: "eno4", Index: 5, MAC: "02:00:00:00:00:04", Driver: "e1000e"})
		all, err := networkd.Steps(filestest.Host(root, nil), link, mtu)
		words := lists.Each(all, func(s networkd.Step) string {
			return s.Device.Name + map[bool]string{true: " keeps ", false: "="}[s.Keeps] + s.MTU
		})
		got := strings.Join(words, " ")
		if err != nil {
			got = err.Error()
		}
		must.True(t, got == want || err != nil && strings.Contains(got, want), "%s: %s, want %s", ask, got, want)
	}
}
