package networkd_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/host/files"
	"linerate/internal/host/files/filestest"
	"linerate/internal/host/files/networkd"
)

// TestPlan: a setting goes into a drop-in of the file that wins today, or the
// refusal names the file and line that stands in the way.
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
		"a glob":           {map[string]string{"etc/systemd/network/20-all.network": "[Match]\nName=en*\n[Network]\nDHCP=yes\n"}, mtu, "", "more than eno1", "/etc/systemd/network/20-all.network:2"},
		"earlier wins":     {map[string]string{"etc/systemd/network/20-owner.network": owner, "usr/lib/systemd/network/10-x.network": owner}, mtu, "/etc/systemd/network/10-x.network.d/50-linerate.conf", "MTUBytes=9000", ""},
		"the owner's link": {map[string]string{"etc/systemd/network/20-card.link": "[Match]\nPermanentMACAddress=02:00:00:00:00:01\n[Link]\nName=eno1\n"}, ring, "/etc/systemd/network/20-card.link.d/50-linerate.conf", "RxBufferSize=4096", ""},
		"default link":     {nil, ring, "/etc/systemd/network/10-linerate-eno1.link", "NamePolicy=keep kernel\n\nRxBufferSize=4096", ""},
		"link of a type":   {map[string]string{"etc/systemd/network/20-all.link": "[Match]\nType=ether\n[Link]\nName=lan0\n"}, ring, "", "more than eno1", "/etc/systemd/network/20-all.link:2"},
		"no .network":      {nil, mtu, "/etc/systemd/network/10-linerate-eno1.link", "MTUBytes=9000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{"usr/lib/systemd/network/99-default.link": {Data: []byte(vendor)}}
			for file, text := range c.tree {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			filestest.Add(root, filestest.Device{Name: "eno1", Kernel: "eno1", Index: 2, MAC: "02:00:00:00:00:01", Driver: "e1000e"})
			p, err := files.Propose(t.Context(), networkd.Format{}, filestest.Host(root, nil), files.Request{Link: "eno1", Settings: []files.Setting{c.setting}})
			if _, ok := errors.AsType[*files.Refusal](err); ok {
				if c.refused == "" || !strings.HasPrefix(err.Error(), c.refused+": ") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err != nil || c.refused != "" || len(p.Files) != 1 || p.Files[0].Path != c.path || !strings.Contains(string(p.Files[0].Content), c.says) {
				t.Errorf("%+v, %v", p.Files, err)
			}
			if strings.Contains(c.path, ".d/") && strings.Contains(string(p.Files[0].Content), "[Match]") {
				t.Error("a drop-in matches")
			}
		})
	}
}
