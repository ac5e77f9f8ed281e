package rcconf_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"linerate/internal/host/files"
	"linerate/internal/host/files/rcconf"
	"linerate/internal/must"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// TestAnotherTime: settings of an earlier block may be removed, unless it was edited by hand.
func TestAnotherTime(t *testing.T) {
	root := fstest.MapFS{"etc/sysctl.conf": file("a=1\n# BEGIN linerate\nnet.inet.tcp.sack.enable=0\n# END linerate\n")}
	r := files.Request{Settings: []files.Setting{{Name: "kern.ipc.maxsockbuf", Text: "5"}}}
	p := must.Get(files.Propose(t.Context(), rcconf.Format{}, files.Host{Root: root, System: "freebsd"}, r))(t)
	must.True(t, len(p.Files) == 1, "%+v", p)
	edited := files.Host{Root: root, System: "freebsd", Edited: func(string) (time.Time, bool) { return time.Time{}, true }}
	must.Contain(t, must.Err(files.Propose(t.Context(), rcconf.Format{}, edited, r)).Error(), `/etc/sysctl.conf:3: it was edited by hand`)
	root["etc/sysctl.conf"] = file("# BEGIN linerate\na=1\n")
	must.Contain(t, must.Err(files.Propose(t.Context(), rcconf.Format{}, edited, r)).Error(), `has no end`)
}

// TestPlan: what is written, or which line prevents it.
func TestPlan(t *testing.T) {
	const owner = "hostname=\"a\"\nifconfig_em0=\"inet 192.0.2.5/24\"\n"
	mtu := files.Setting{Knob: "link.mtu", Name: "mtu", Value: "9000"}
	sack := files.Setting{Knob: "tcp.sack", Name: "net.inet.tcp.sack.enable", Text: "0"}
	threads := files.Setting{Knob: "netisr.threads", Name: "net.isr.maxthreads", Text: "4", AtBoot: true}
	for name, c := range map[string]struct {
		files   fstest.MapFS
		setting files.Setting
		want    string // "PATH LINE", or the beginning of the refusal
	}{
		"an MTU":                   {fstest.MapFS{"etc/rc.conf": file(owner)}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"with a script":            {fstest.MapFS{"etc/rc.conf": file(owner), "etc/start_if.em0": file("sleep 1\n")}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"with one that ends":       {fstest.MapFS{"etc/rc.conf": file(owner), "etc/start_if.em0": file("sleep 1\nexit 0\n")}, mtu, "/etc/start_if.em0:2: "},
		"an MTU of the owner":      {fstest.MapFS{"etc/rc.conf": file("ifconfig_em0=\"inet 192.0.2.5/24 mtu 1400\"\n")}, mtu, "/etc/rc.conf:1: ifconfig/mtu of em0 would be 1400"},
		"the last assignment wins": {fstest.MapFS{"etc/rc.conf": file("ifconfig_em0=\"inet 192.0.2.5/24 mtu 1400\"\n"), "etc/rc.conf.local": file("ifconfig_em0=\"inet 192.0.2.6/24\"\n")}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"in a folder":              {fstest.MapFS{"etc/rc.conf": file(owner), "etc/rc.conf.d/netif/a": file("ifconfig_em0='mtu 1300'\n")}, mtu, "/etc/rc.conf.d/netif/a:1: "},
		"another syntax":           {fstest.MapFS{"etc/rc.conf": file(owner + "[ -f /x ] && ifconfig_em0=\"DHCP\"\n")}, mtu, "/etc/rc.conf:3: only a shell"},
		"a variable in it":         {fstest.MapFS{"etc/rc.conf": file("a=x\nifconfig_em0=\"inet $a\"\n")}, mtu, "/etc/rc.conf:2: only a shell"},
		"no line":                  {fstest.MapFS{"etc/rc.conf": file("ifconfig_em1=\"DHCP\"\n")}, mtu, "/etc/rc.conf: no line configures em0"},
		"the default of all":       {fstest.MapFS{"etc/rc.conf": file("ifconfig_DEFAULT=\"DHCP\"\n")}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"netif is off":             {fstest.MapFS{"etc/rc.conf": file(owner + "netif_enable=\"NO\"\n")}, mtu, "/etc/rc.conf:3: rc.d/netif starts no interface"},
		"another one is started":   {fstest.MapFS{"etc/rc.conf": file(owner + "network_interfaces=\"lo0 em1\"\n")}, mtu, "/etc/rc.conf:3: rc.d/netif starts these"},
		"NOAUTO":                   {fstest.MapFS{"etc/rc.conf": file("ifconfig_em0=\"DHCP NOAUTO\"\n")}, mtu, "/etc/rc.conf:1: rc.d/netif does not start em0"},
		"other files":              {fstest.MapFS{"etc/rc.conf": file(owner + "rc_conf_files=\"/etc/rc.conf /etc/rc.site\"\n")}, mtu, "/etc/rc.conf:3: other files"},
		"a file that is read":      {fstest.MapFS{"etc/rc.conf": file(owner + ". /etc/rc.site\n")}, mtu, "/etc/rc.conf:3: another file is read"},
		"an alias with an MTU":     {fstest.MapFS{"etc/rc.conf": file(owner + "ifconfig_em0_alias0=\"inet 192.0.2.9/32 mtu 1400\"\n")}, mtu, "/etc/rc.conf:3: ifconfig/mtu of em0 would be 1400"},
		"a VLAN with an MTU":       {fstest.MapFS{"etc/rc.conf": file(owner + "ifconfig_em0_10=\"inet 192.0.2.9/24 mtu 1400\"\n")}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"a port of a lagg":         {fstest.MapFS{"etc/rc.conf": file(owner + "ifconfig_lagg0=\"laggproto lacp laggport em0 laggport em1 DHCP\"\n")}, mtu, "/etc/rc.conf:3: lagg0 and all its ports have one MTU"},
		"a port of a bridge":       {fstest.MapFS{"etc/rc.conf": file(owner + "ifconfig_bridge0=\"addm em1 addm em0 up\"\n")}, mtu, "/etc/rc.conf:3: bridge0 and all its ports have one MTU"},
		"a lagg":                   {fstest.MapFS{"etc/rc.conf": file("ifconfig_em0=\"laggproto lacp laggport em1 DHCP\"\n")}, mtu, "/etc/rc.conf:1: em0 and all its ports have one MTU"},
		"below a VLAN":             {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em0=\"10\"\nifconfig_em0_10=\"inet 192.0.2.9/24\"\n")}, mtu, "/etc/rc.conf:3: em0_10 would take this MTU"},
		"below a named VLAN":       {fstest.MapFS{"etc/rc.conf": file(owner + "ifconfig_vlan7=\"vlan 7 vlandev em0 DHCP\"\n")}, mtu, "/etc/rc.conf:3: vlan7 would take this MTU"},
		"below one with an MTU":    {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em0=\"lan\"\ncreate_args_lan=\"vlan 7\"\nifconfig_lan=\"DHCP mtu 1500\"\n")}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"below one with more":      {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em0=\"7\"\nifconfig_em0_7=\"DHCP mtu 9100\"\n")}, mtu, "/etc/rc.conf:4: em0_7 has 9100"},
		"below one with a script":  {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em0=\"7\"\n"), "etc/start_if.em0.7": file("ifconfig em0.7 mtu 9100\n")}, mtu, "/etc/start_if.em0.7:1: em0_7 has 9100"},
		"a VLAN of a smaller one":  {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em1=\"em0\"\nifconfig_em1=\"mtu 1400\"\n")}, files.Setting{Knob: "link.mtu", Name: "mtu", Value: "1500"}, "/etc/rc.conf:3: em0 cannot be above em1, which has 1400"},
		"a VLAN":                   {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em1=\"em0\"\ncreate_args_em0=\"vlan 7\"\n")}, mtu, "/etc/rc.conf:3: em0 cannot be above em1"},
		"a VLAN that waits":        {fstest.MapFS{"etc/rc.conf": file("ifconfig_em1=\"mtu 9000 up\"\nifconfig_em0=\"vlan 7 vlandev em1 DHCP\"\n")}, mtu, "/etc/rc.conf:2: em0 gets its parent only here"},
		"a VLAN below its parent":  {fstest.MapFS{"etc/rc.conf": file(owner + "vlans_em1=\"em0\"\nifconfig_em1=\"mtu 9000 up\"\n")}, mtu, "/etc/start_if.em0 ifconfig em0 mtu 9000 || :"},
		"a sysctl":                 {fstest.MapFS{"etc/sysctl.conf": file("net.inet.tcp.sack.enable=1 # on\n")}, sack, "/etc/sysctl.conf net.inet.tcp.sack.enable=0"},
		"that .local sets":         {fstest.MapFS{"etc/sysctl.conf.local": file("\nnet.inet.tcp.sack.enable=1\n")}, sack, "/etc/sysctl.conf.local:2: "},
		"that a later line sets": {fstest.MapFS{"etc/sysctl.conf": file("# BEGIN linerate\n# END linerate\nnet.inet.tcp.sack.enable=1\n")}, sack,
			"/etc/sysctl.conf:4: "},
		"a tunable":                     {fstest.MapFS{"boot/loader.conf": file("net.isr.maxthreads=\"1\"\n")}, threads, "/boot/loader.conf net.isr.maxthreads=\"4\""},
		"behind a broken line":          {fstest.MapFS{"boot/loader.conf": file("a=\"1\"\nb = \"2\"\n")}, threads, "/boot/loader.conf:2: loader(8) stops"},
		"that .local sets too":          {fstest.MapFS{"boot/loader.conf.local": file("net.isr.maxthreads=\"1\"\n")}, threads, "/boot/loader.conf.local:1: "},
		"that a folder sets":            {fstest.MapFS{"boot/loader.conf.d/a.conf": file("net.isr.maxthreads=\"1\"\n")}, threads, "/boot/loader.conf.d/a.conf:1: "},
		"a congestion control":          {fstest.MapFS{}, files.Setting{Knob: "tcp.congestion_control", Name: "net.inet.tcp.cc.algorithm", Text: "htcp"}, "/boot/loader.conf cc_htcp_load=\"YES\""},
		"what ifconfig has no word for": {fstest.MapFS{}, files.Setting{Knob: "nic.wol", Name: "wol", Value: "phy"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := files.Propose(t.Context(), rcconf.Format{}, files.Host{Root: c.files, System: "freebsd"}, files.Request{Link: "em0", Settings: []files.Setting{c.setting}})
			var refusal *files.Refusal
			path, line, _ := strings.Cut(c.want, " ")
			switch {
			case errors.As(err, &refusal):
				must.True(t, strings.HasPrefix(refusal.Error(), c.want) && c.want != "", "%v, want %s", refusal, c.want)
			case err != nil:
				t.Error(err)
			case c.want == "":
				must.True(t, len(p.Omitted) == 1 && len(p.Files) == 0, "%+v", p.Draft)
			case len(p.Files) == 0 || p.Files[0].Path != path || !p.Files[0].Block || !strings.Contains(string(p.Files[0].Content), "\n"+line+"\n"):
				t.Errorf("%+v, want %s", p.Files, c.want)
			}
		})
	}
}

// TestExport: the file for an interface that is not read says what the name shows about its
// ports and its parent.
func TestExport(t *testing.T) {
	for link, want := range map[string]string{
		"lagg0":   "left out: lagg0 and all its ports have one MTU, that of the first port: write mtu 9000 into the ifconfig_ line of each port",
		"bridge1": "left out: bridge1 and all its ports have one MTU",
		"vlan7":   "left out: vlan7 has an MTU only with its parent: write mtu 9000 behind vlandev in ifconfig_vlan7",
		"em0.7":   "em0.7 cannot be above em0: write mtu 9000 into ifconfig_em0 first",
		"em0":     "where em0 is a port of a lagg or a bridge, write mtu 9000 into the ifconfig_ line of each port",
	} {
		d := rcconf.Format{}.Export(files.Request{Link: link, Settings: []files.Setting{{Knob: "link.mtu", Name: "mtu", Value: "9000"}}})
		got := strings.Join(d.Notes, "\n")
		for _, o := range d.Omitted {
			got += "left out: " + o.Reason
		}
		must.Contain(t, got, want)
		must.Equal(t, len(d.Files) == 0, strings.HasPrefix(want, "left out"), "%s: no file", link)
	}
}
