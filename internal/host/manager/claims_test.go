package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// card adds eth0, index 2, to a tree as sysfs shows it.
func card(files fstest.MapFS) fstest.MapFS {
	for name, text := range map[string]string{
		"sys/class/net/eth0/address": "00:11:22:33:44:55\n", "sys/class/net/eth0/ifindex": "2\n", "sys/class/net/eth0/type": "1\n",
		"sys/class/net/eth0/mtu": "9000\n", "sys/class/net/docker0/ifindex": "3\n",
	} {
		if files[name] == nil {
			files[name] = file(text)
		}
	}
	return files
}

// linux is a machine on which the given programs run.
func linux(files fstest.MapFS, running ...string) Machine {
	return Machine{Root: card(files), System: "linux", Running: func(context.Context) (map[string]bool, error) {
		all := map[string]bool{"systemd": true}
		for _, r := range running {
			all[r] = true
		}
		return all, nil
	}}
}

var ids = []model.KnobID{"link.mtu", "nic.ring.rx", "nic.irq_affinity", "cpu.governor", "tcp.recv_buffer_max", "socket.recv_buffer_max", "tcp.listen_queue", "tcp.sack"}

// short formats claims as "knob manager sets file:line active".
func short(claims []model.Claim) []string {
	var all []string
	for _, c := range claims {
		active := "?"
		if v, ok := c.Active.Get(); ok {
			active = fmt.Sprint(v)
		}
		all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s:%d %s", c.Knob, c.Manager, strings.ReplaceAll(c.Sets, " ", ","), c.File, c.Line, active)), " "))
	}
	return all
}

// TestClaims goes through the formats of the manual pages and program sources that the
// parsers name.
func TestClaims(t *testing.T) {
	tuned := func(more fstest.MapFS) fstest.MapFS { // tuned.conf(5), and the profiles of its package
		all := fstest.MapFS{
			"etc/tuned/active_profile": file("mine\n"),
			"etc/tuned/mine/tuned.conf": file("[main]\ninclude=base\n[variables]\nsize=33554432\n[sysctl]\nnet.ipv4.tcp_rmem=\"4096 87380 ${size}\"\n" +
				"net.core.somaxconn=>2048\n[net]\ndevices=eth*,!eth1\nmtu=9000\nring=rx 4096 tx 512\n[cpu]\ngovernor=performance|schedutil\n"),
			"usr/lib/tuned/base/tuned.conf": file("[variables]\nsize=1\n[sysctl]\nnet.core.rmem_max = ${size} # comment\nnet.ipv4.tcp_sack=0\n[net]\nmtu=1400\n[sysctl.old]\ntype=sysctl\ncpuinfo_regex=x\nnet.ipv4.tcp_sack=1\n"),
		}
		maps.Copy(all, more)
		return all
	}
	keyfile := "etc/NetworkManager/system-connections/a.nmconnection"
	for name, c := range map[string]struct {
		machine Machine
		want    []string
	}{
		"nothing": {linux(fstest.MapFS{}), nil},
		"sysctl.d": {linux(fstest.MapFS{"usr/lib/systemd/systemd-sysctl": file(""), "usr/lib/sysctl.d/50-v.conf": file("net.ipv4.tcp_sack=1\n"),
			"etc/sysctl.d/60-a.conf": file("net.ipv4.tcp_sack=0\n"), "etc/sysctl.conf": file("net.ipv4.tcp_sack=1\n"), "proc/cmdline": file("quiet sysctl.net/ipv4/tcp_sack=0\n")}),
			[]string{"tcp.sack kernel-command-line 0 /proc/cmdline:1 true", "tcp.sack systemd-sysctl 1 /usr/lib/sysctl.d/50-v.conf:1 true",
				"tcp.sack systemd-sysctl 0 /etc/sysctl.d/60-a.conf:1 true", "tcp.sack procps-sysctl 1 /etc/sysctl.conf:1 false"}},
		"without systemd": {linux(fstest.MapFS{"etc/sysctl.conf": file("net.ipv4.tcp_sack=1\n")}), []string{"tcp.sack procps-sysctl 1 /etc/sysctl.conf:1 true"}},
		"TuneD": {linux(tuned(nil), "tuned"), []string{
			"link.mtu tuned 9000 /etc/tuned/mine/tuned.conf:10 true", "nic.ring.rx tuned 4096 /etc/tuned/mine/tuned.conf:11 true",
			"cpu.governor tuned performance /etc/tuned/mine/tuned.conf:13 true",
			"tcp.recv_buffer_max tuned 4096,87380,33554432 /etc/tuned/mine/tuned.conf:6 true",
			"socket.recv_buffer_max tuned 33554432 /usr/lib/tuned/base/tuned.conf:4 true",
			"tcp.listen_queue tuned 2048 /etc/tuned/mine/tuned.conf:7 true",
			"tcp.sack tuned 0 /usr/lib/tuned/base/tuned.conf:5 true", "tcp.sack tuned 1 /usr/lib/tuned/base/tuned.conf:11 ?",
		}},
		"TuneD lets the administrator win": {linux(tuned(fstest.MapFS{
			"etc/tuned/mine/tuned.conf": file("[sysctl]\nnet.ipv4.tcp_sack=0\n"), "etc/sysctl.d/a.conf": file("net.ipv4.tcp_sack=1\n"),
			"usr/lib/sysctl.d/b.conf": file("net.ipv4.tcp_sack=1\n"), "usr/lib/systemd/systemd-sysctl": file(""), "etc/sysctl.conf": file("net.ipv4.tcp_sack=0\n"),
		}), "tuned"), []string{"tcp.sack systemd-sysctl 1 /usr/lib/sysctl.d/b.conf:1 true", "tcp.sack tuned 0 /etc/tuned/mine/tuned.conf:2 true",
			"tcp.sack systemd-sysctl 1 /etc/sysctl.d/a.conf:1 true", "tcp.sack tuned 0 /etc/sysctl.conf:1 true"}},
		"TuneD told to win": {linux(tuned(fstest.MapFS{
			"etc/tuned/mine/tuned.conf": file("[sysctl]\nnet.ipv4.tcp_sack=0\n"), "etc/sysctl.d/a.conf": file("net.ipv4.tcp_sack=1\n"),
			"etc/tuned/tuned-main.conf": file("daemon = 1\nreapply_sysctl = 0\n"),
		})), []string{"tcp.sack procps-sysctl 1 /etc/sysctl.d/a.conf:1 true", "tcp.sack tuned 0 /etc/tuned/mine/tuned.conf:2 false"}},
		"NetworkManager": {linux(fstest.MapFS{keyfile: file("[connection]\nuuid=u\n[ethernet]\nmtu=1400\n"),
			"run/NetworkManager/devices/2": file("[device]\nmanaged=true\nconnection-uuid=u\n")}, "NetworkManager"),
			[]string{"link.mtu networkmanager 1400 /" + keyfile + ":4 true"}},
		"NetworkManager resets": {linux(fstest.MapFS{keyfile: file("[connection]\ninterface-name=eth0\n")}, "NetworkManager"),
			[]string{"link.mtu networkmanager /" + keyfile + ":0 true"}},
		"NetworkManager is kept out": {linux(fstest.MapFS{keyfile: file("[connection]\ninterface-name=eth0\n[ethernet]\nmtu=1400\n"),
			"etc/NetworkManager/conf.d/a.conf": file("[keyfile]\nunmanaged-devices=interface-name:eth*,except:interface-name:eth1\n")}, "NetworkManager"),
			[]string{"link.mtu networkmanager 1400 /" + keyfile + ":4 false"}},
		"networkd and its lease": {linux(fstest.MapFS{"etc/systemd/network/a.network": file("[Match]\nName=eth0\n[Network]\nDHCP=yes\n[DHCPv4]\nUseMTU=yes\n"),
			"run/systemd/netif/leases/2": file("# This is private data. Do not parse.\nADDRESS=192.0.2.7\nMTU=1400\n")}, "systemd-network"),
			[]string{"link.mtu dhcp 1400 /run/systemd/netif/leases/2:3 true"}},
		"networkd without use": {linux(fstest.MapFS{"etc/systemd/network/a.network": file("[Match]\nName=eth0\n[Network]\nDHCP=yes\n"),
			"run/systemd/netif/leases/2": file("MTU=1400\n")}, "systemd-network"), nil},
		"dhclient": {linux(fstest.MapFS{"var/lib/dhcp/dhclient.eth0.leases": file("lease {\n  interface \"eth0\";\n  option interface-mtu 1300;\n}\nlease {\n  interface \"eth1\";\n  option interface-mtu 1;\n}\nlease {\n  interface \"eth0\";\n  option interface-mtu 1400;\n}\n")}),
			[]string{"link.mtu dhcp 1400 /var/lib/dhcp/dhclient.eth0.leases:11 false"}},
		"router": {linux(fstest.MapFS{"proc/sys/net/ipv6/conf/eth0/mtu": file("1480\n"), "proc/sys/net/ipv6/conf/eth0/accept_ra": file("1\n"), "proc/sys/net/ipv6/conf/eth0/accept_ra_mtu": file("1\n")}),
			[]string{"link.mtu router-advertisement /proc/sys/net/ipv6/conf/eth0/mtu:0 true"}},
		"netplan of cloud-init": {linux(fstest.MapFS{"usr/bin/cloud-init": file(""), "etc/netplan/50-cloud-init.yaml": file("# This file is generated from information provided by the datasource.  Changes\n# to it will not persist across an instance reboot.\nnetwork:\n    ethernets:\n        eth0:\n            match: {macaddress: 00:11:22:33:44:55}\n            mtu: 1450\n            set-name: eth0\n    version: 2\n")}, "systemd-network"),
			[]string{"link.mtu netplan 1450 /etc/netplan/50-cloud-init.yaml:7 true", "link.mtu cloud-init 1450 /etc/netplan/50-cloud-init.yaml:0 true"}},
		"cloud-init told not to": {linux(fstest.MapFS{"usr/bin/cloud-init": file(""), "etc/cloud/cloud.cfg.d/99-x.cfg": file("network: {config: disabled}\n"),
			"etc/network/interfaces": file("# cloud-init wrote this\niface eth0 inet manual\n mtu 1450\n"), "run/network/ifstate": file("lo=lo\neth0=eth0\n")}),
			[]string{"link.mtu ifupdown 1450 /etc/network/interfaces:3 true", "link.mtu cloud-init 1450 /etc/network/interfaces:0 false"}},
		"daemons": {linux(fstest.MapFS{}, "irqbalance", "bpftune", "power-profiles-"), []string{
			"nic.irq_affinity irqbalance :0 true", "cpu.governor power-profiles-daemon :0 true", "tcp.recv_buffer_max bpftune :0 true", "socket.recv_buffer_max bpftune :0 true"}},
		"udev and ifcfg": {linux(fstest.MapFS{"etc/systemd/network/a.link": file("[Match]\nOriginalName=*\n[Link]\nRxBufferSize=4096\n"),
			"etc/sysconfig/network-scripts/ifcfg-eth0": file("NM_CONTROLLED=no\nMTU=1400\n"), "etc/sysconfig/network/ifcfg-eth0": file("MTU=1300\n")}, "NetworkManager", "wickedd"),
			[]string{"link.mtu network-scripts 1400 /etc/sysconfig/network-scripts/ifcfg-eth0:2 ?", "link.mtu wicked 1300 /etc/sysconfig/network/ifcfg-eth0:1 true",
				"nic.ring.rx systemd-udevd 4096 /etc/systemd/network/a.link:4 true"}},
	} {
		t.Run(name, func(t *testing.T) {
			claims := must.Get(c.machine.Claims(t.Context(), "eth0", ids))(t)
			got := short(claims)
			must.True(t, slices.Equal(got, c.want), "got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			for _, c := range claims {
				must.True(t, c.When != "" && !strings.HasSuffix(c.String(), ".") && (c.Link == "eth0") == (strings.HasPrefix(string(c.Knob), "link.") || strings.HasPrefix(string(c.Knob), "nic.")), "%+v: %s", c, c)
			}
		})
	}
}

// The files of Docker and CNI follow dockerd(8) and the CNI specification.
func TestContainers(t *testing.T) {
	m := linux(fstest.MapFS{
		"etc/docker/daemon.json":        file("{\n  \"mtu\": 1450\n}\n"),
		"etc/cni/net.d/10-a.conflist":   file("{\"plugins\": [\n{\"type\": \"bridge\", \"bridge\": \"cni0\",\n\"mtu\": 1400}]}"),
		"sys/class/net/docker0/ifindex": file("3\n"),
	}, "dockerd")
	for link, want := range map[string][]string{
		"docker0": {"link.mtu docker 1450 /etc/docker/daemon.json:2 true"}, "cni0": {"link.mtu cni 1400 /etc/cni/net.d/10-a.conflist:3 false"}, "eth0": nil,
	} {
		claims, err := m.Claims(t.Context(), link, ids)
		got := short(claims)
		must.True(t, err == nil && slices.Equal(got, want), "%s: %v, %v, want %v", link, got, err, want)
	}
}

func TestOtherSystems(t *testing.T) {
	mtu := []model.KnobID{"link.mtu", "tcp.recv_buffer_max", "tcp.autotune_level"}
	for name, c := range map[string]struct {
		m    Machine
		want []string
	}{
		// rc.conf(5), sysctl.conf(5), devd.conf(5)
		"freebsd": {Machine{System: "freebsd", Root: fstest.MapFS{
			"etc/rc.conf":                file("ifconfig_em0=\"DHCP mtu 9000\"\n"),
			"etc/sysctl.conf":            file("net.inet.tcp.recvbuf_max=4194304\n"),
			"etc/devd/x.conf":            file("notify 100 {\n\tmatch \"system\" \"IFNET\";\n\taction \"/sbin/ifconfig em0 mtu 1400\";\n};\n"),
			"var/db/dhclient.leases.em0": file("lease {\n  interface \"em0\";\n  option interface-mtu 1300;\n}\n"),
		}}, []string{"link.mtu freebsd-rc 9000 /etc/rc.conf:1 true", "link.mtu dhcp 1300 /var/db/dhclient.leases.em0:3 ?", "link.mtu devd 1400 /etc/devd/x.conf:3 ?",
			"tcp.recv_buffer_max freebsd-rc 4194304 /etc/sysctl.conf:1 true"}},
		// From an earlier keep; it overrides rc.conf.
		"freebsd, start_if": {Machine{System: "freebsd", Root: fstest.MapFS{
			"etc/rc.conf": file("ifconfig_DEFAULT=\"DHCP\"\n"), "etc/start_if.em0": file("# BEGIN linerate\nifconfig em0 mtu 4000 || :\n# END linerate\n"),
		}}, []string{"link.mtu freebsd-rc 4000 /etc/start_if.em0:2 true"}},
		"darwin": {Machine{System: "darwin", Root: fstest.MapFS{"etc/sysctl.conf": file("net.inet.tcp.autorcvbufmax=1\n")}},
			[]string{"link.mtu macos-network-service :0 true", "tcp.recv_buffer_max macos-launch-daemon 1 /etc/sysctl.conf:1 false"}},
		"windows":          {Machine{System: "windows", Registry: policies{"Tcp Autotuning Level": "Highly Restricted"}}, []string{"tcp.autotune_level windows-group-policy HighlyRestricted :0 true"}},
		"windows, no such": {Machine{System: "windows", Registry: policies{}}, nil},
		"windows, unread":  {Machine{System: "windows"}, nil},
		"plan9":            {Machine{System: "plan9"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := c.m.Claims(t.Context(), "em0", mtu)
			got := short(claims)
			must.True(t, err == nil && slices.Equal(got, c.want), "%v, %v", strings.Join(got, "\n"), err)
		})
	}
}

// policies holds the values of the key of Advanced QoS Settings.
type policies map[string]string

func (p policies) Values(_ context.Context, key string) (map[string]string, error) {
	if key != `SOFTWARE\Policies\Microsoft\Windows\QoS` || len(p) == 0 {
		return nil, fs.ErrNotExist
	}
	return p, nil
}

func TestString(t *testing.T) {
	c := model.Claim{Knob: "link.mtu", Link: "eth0", Manager: model.ManagerNetworkManager, Sets: "1400", When: "whenever the connection comes up again", File: "/etc/a", Line: 3, Active: fact.Known(true, "x")}
	must.Equal(t, c.String(), "NetworkManager manages eth0 and may set link.mtu again, to 1400: whenever the connection comes up again (/etc/a:3)")
	c.Active, c.Sets, c.Line = fact.Known(false, "x"), "", 0
	must.Equal(t, c.String(), "NetworkManager would set link.mtu of eth0, but is not at work now: whenever the connection comes up again (/etc/a)")
	c = model.Claim{Knob: "link.mtu", Link: "eth0", Manager: model.ManagerDHCP, When: "whenever the lease is renewed"}
	must.Equal(t, c.String(), "DHCP may set link.mtu of eth0 again: whenever the lease is renewed")
	c = model.Claim{Knob: "tcp.sack", Manager: model.ManagerTuneD, Sets: "0", When: "whenever it starts"}
	must.Equal(t, c.String(), "TuneD may set tcp.sack again, to 0: whenever it starts")
}

// A file of a running program takes precedence over a file that no running program reads.
func TestLinesOfProgramsAtWork(t *testing.T) {
	files := fstest.MapFS{
		"etc/network/interfaces":        file("iface eth0 inet manual\n mtu 1400\n"),
		"etc/systemd/network/a.network": file("[Match]\nName=eth0\n[Link]\nMTUBytes=1300\n"),
		"etc/docker/daemon.json":        file("{\"bridge\": \"eth0\", \"mtu\": 1450}\n"),
	}
	for at, running := range map[string]string{"/etc/systemd/network/a.network": "systemd-network", "/etc/docker/daemon.json": "dockerd", "/etc/network/interfaces": "none"} {
		got := must.Get(linux(files, running).Lines(t.Context(), "eth0", ids))(t)
		must.True(t, len(got) == 1 && got["link.mtu"].File == at, "%s: %+v", running, got)
	}
	files["run/network/ifstate"] = file("lo=lo\n") // now ifup does not run either
	got := must.Get(linux(files).Lines(t.Context(), "eth0", ids))(t)
	must.Equal(t, got["link.mtu"], model.FileLine{File: "/etc/systemd/network/a.network", Number: 4, Text: "1300"})
}

func TestClaimsEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, must.Err(linux(fstest.MapFS{}).Claims(ctx, "eth0", ids)), context.Canceled, "claims")
	_, _, err := linux(fstest.MapFS{}).Owner(ctx, "eth0")
	must.True(t, errors.Is(err, context.Canceled), "owner: %v", err)
}

// TestOrderOfSysctlFiles: without TuneD only the file names determine the order, not their
// directories; with it the administrator's files are applied once more.
func TestOrderOfSysctlFiles(t *testing.T) {
	files := fstest.MapFS{
		"usr/lib/systemd/systemd-sysctl":      file(""),
		"etc/sysctl.d/10-mine.conf":           file("net.core.rmem_max = 1\n"),
		"usr/lib/sysctl.d/99-vendor-net.conf": file("net.core.rmem_max = 2\n"),
	}
	last := func(m Machine) string {
		claims := must.Get(m.Claims(t.Context(), "", []model.KnobID{"socket.recv_buffer_max"}))(t)
		must.Need(t, len(claims) != 0, "%+v", claims)
		return claims[len(claims)-1].File
	}
	must.Equal(t, last(linux(files)), "/usr/lib/sysctl.d/99-vendor-net.conf", "without TuneD")
	files["etc/tuned/active_profile"], files["etc/tuned/mine/tuned.conf"] = file("mine\n"), file("[sysctl]\nnet.core.wmem_max=5\n")
	must.Equal(t, last(linux(files, "tuned")), "/etc/sysctl.d/10-mine.conf", "with TuneD")
	must.Equal(t, last(linux(files)), "/usr/lib/sysctl.d/99-vendor-net.conf", "with TuneD that does not run")
}
