package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/networkmanager"
	"linerate/internal/must"
)

func TestOwner(t *testing.T) {
	udev := func(files fstest.MapFS) fstest.MapFS {
		files["usr/lib/systemd/systemd-udevd"] = file("")
		return files
	}
	interfaces := file("auto eth0\niface eth0 inet dhcp\n")
	for name, c := range map[string]struct {
		m    Machine
		want model.FileFormat
		why  string // part of the reason
	}{
		"netplan before all": {linux(udev(fstest.MapFS{"etc/netplan/a.yaml": file("network:\n  renderer: NetworkManager\n  ethernets:\n    eth0: {dhcp4: true}\n"),
			"run/NetworkManager/devices/2": file("[device]\nmanaged=true\n")}), "NetworkManager"), model.FormatNetplan, "/etc/netplan/a.yaml:4"},
		"netplan for others": {linux(udev(fstest.MapFS{"etc/netplan/a.yaml": file("network: {ethernets: {eth1: {dhcp4: true}}}\n")})), model.FormatSystemdNetworkd, "no other program"},
		"NetworkManager":     {linux(udev(fstest.MapFS{"etc/network/interfaces": interfaces}), "NetworkManager"), model.FormatNetworkManager, "manages eth0"},
		"ifupdown beside NetworkManager": {linux(udev(fstest.MapFS{"etc/network/interfaces": interfaces,
			"etc/NetworkManager/NetworkManager.conf": file("[main]\nplugins=ifupdown,keyfile\n[ifupdown]\nmanaged=false\n")}), "NetworkManager"), model.FormatIfupdown, "/etc/network/interfaces:2"},
		"NetworkManager for both": {linux(udev(fstest.MapFS{"etc/network/interfaces": interfaces,
			"etc/NetworkManager/NetworkManager.conf": file("[main]\nplugins=ifupdown,keyfile\n[ifupdown]\nmanaged=true\n")}), "NetworkManager"), model.FormatNetworkManager, ""},
		"networkd": {linux(udev(fstest.MapFS{"run/systemd/netif/links/2": file("ADMIN_STATE=configured\n"), "etc/network/interfaces": interfaces}), "systemd-network"),
			model.FormatSystemdNetworkd, "systemd-networkd manages eth0 (configured"},
		"networkd leaves it": {linux(udev(fstest.MapFS{"run/systemd/netif/links/2": file("ADMIN_STATE=unmanaged\n"), "etc/network/interfaces": interfaces}), "systemd-network"),
			model.FormatIfupdown, ""},
		"ifupdown is down": {linux(udev(fstest.MapFS{"etc/network/interfaces": interfaces, "run/network/ifstate": file("lo=lo\n")})), model.FormatSystemdNetworkd, ""},
		"udev":             {linux(udev(fstest.MapFS{})), model.FormatSystemdNetworkd, "udev reads .link files"},
		"not known what runs": {Machine{System: "linux", Root: card(fstest.MapFS{"etc/NetworkManager/system-connections/a.nmconnection": file("[connection]\ninterface-name=eth0\n")})},
			model.FormatNetworkManager, "a.nmconnection"},
		"freebsd": {Machine{System: "freebsd"}, model.FormatFreeBSD, "rc.conf"},
		"darwin":  {Machine{System: "darwin"}, model.FormatMacOS, ""},
		"windows": {Machine{System: "windows"}, model.FormatWindowsPowerShell, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, why, err := c.m.Owner(t.Context(), "eth0")
			must.True(t, err == nil && got == c.want && strings.Contains(why, c.why), "%q because %q, %v", got, why, err)
		})
	}
	for name, c := range map[string]struct {
		m    Machine
		link string
		want error
	}{
		"nothing there": {linux(fstest.MapFS{}), "eth0", errors.ErrUnsupported}, "no interface": {linux(fstest.MapFS{}), "", fs.ErrNotExist},
		"not there": {linux(fstest.MapFS{}), "eth7", fs.ErrNotExist}, "plan9": {Machine{System: "plan9"}, "ether0", errors.ErrUnsupported},
	} {
		_, _, err := c.m.Owner(t.Context(), c.link)
		must.True(t, errors.Is(err, c.want), "%s: %v", name, err)
	}
}

// The lists follow NetworkManager.conf(5), "Device List Format".
func TestDeviceList(t *testing.T) {
	d := device.Device{Name: "eth0", MAC: "00:22:68:1c:59:b1", Type: "ether", Driver: "e1000e"}
	for list, want := range map[string]device.Answer{
		"interface-name:em4": device.No, "mac:00:22:68:1c:59:b1;mac:00:1E:65:30:D1:C4;interface-name:eth2": device.Yes,
		"interface-name:eth*,except:interface-name:eth0": device.No, "*,except:mac:00:22:68:1c:59:b2": device.Yes, "eth0": device.Yes, "00:22:68:1C:59:B1": device.Yes,
		"except:interface-name:eth1": device.Yes, "except:interface-name:=eth0": device.No, "interface-name:=eth*": device.No, "interface-name:~eth?": device.Yes,
		"type:ethernet": device.Yes, "type:wifi": device.No, "driver:e1000e/1.*": device.Yes, "driver:ixgbe": device.No, "": device.No, "s390-subchannels:0.0.1": device.No,
	} {
		must.Equal(t, networkmanager.DeviceList(list, d), want, "%q", list)
	}
	must.Equal(t, networkmanager.DeviceList("mac:00:22:68:1c:59:b1", device.Device{Name: "x"}), device.Maybe, "unknown address")
}

// The sections are in the order given in NetworkManager.conf(5), "Sections".
func TestDeviceSections(t *testing.T) {
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  bool
	}{
		"first of a file":    {fstest.MapFS{"etc/NetworkManager/NetworkManager.conf": file("[device]\nmanaged=0\n[device-a]\nmatch-device=interface-name:eth0\nmanaged=1\n[device-b]\nmanaged=0\n")}, true},
		"later file":         {fstest.MapFS{"etc/NetworkManager/NetworkManager.conf": file("[device-a]\nmanaged=1\n"), "etc/NetworkManager/conf.d/a.conf": file("[device-z]\nmanaged=0\n")}, false},
		"vendor's is first":  {fstest.MapFS{"usr/lib/NetworkManager/conf.d/z.conf": file("[device-a]\nmanaged=0\n"), "etc/NetworkManager/NetworkManager.conf": file("[device-z]\nmanaged=1\n")}, true},
		"vendor's is hidden": {fstest.MapFS{"usr/lib/NetworkManager/conf.d/z.conf": file("[device-a]\nmanaged=0\n"), "etc/NetworkManager/conf.d/z.conf": file("")}, true},
		"udev":               {fstest.MapFS{"run/udev/data/n2": file("E:NM_UNMANAGED=1\n")}, false},
		"over udev":          {fstest.MapFS{"run/udev/data/n2": file("E:NM_UNMANAGED=1\n"), "etc/NetworkManager/NetworkManager.conf": file("[device]\nmanaged=true\n")}, true},
		"its own state":      {fstest.MapFS{"run/NetworkManager/devices/2": file("[device]\nmanaged=false\n")}, false},
	} {
		s := linux(c.files, "NetworkManager").search(t.Context(), "eth0", nil)
		s.linkFiles()
		got, known := s.nmManages().Get()
		must.True(t, known && got == c.want, "%s: %t", name, got)
	}
}

// packet is a DHCP message as dhcpcd stores it, RFC 2131 section 2.
func packet(options ...byte) []byte {
	return append(append(make([]byte, 236), 99, 130, 83, 99), options...)
}

func TestPacketMTU(t *testing.T) {
	for name, c := range map[string]struct {
		packet []byte
		want   int
	}{
		"option 26":        {packet(53, 1, 5, 0, 0, 26, 2, 0x05, 0x78, 255), 1400},
		"none":             {packet(53, 1, 5, 255, 26, 2, 0x05, 0x78), 0},
		"cut off":          {packet(53, 1, 5, 26, 2, 0x05), 0},
		"of another size":  {packet(26, 1, 5, 255), 0},
		"no cookie":        {make([]byte, 400), 0},
		"nothing":          {nil, 0},
		"length only":      {packet(26), 0},
		"end without mark": {packet(1, 4, 255, 255, 255, 0), 0},
	} {
		got, ok := packetMTU(c.packet)
		must.True(t, got == c.want && ok == (c.want > 0), "%s: %d, %t, want %d", name, got, ok, c.want)
	}
	m := linux(fstest.MapFS{"var/lib/dhcpcd/eth0.lease": {Data: packet(26, 2, 0x05, 0x78, 255)}}, "dhcpcd")
	claims := must.Get(m.Claims(t.Context(), "eth0", ids))(t)
	must.True(t, len(claims) == 1 && claims[0].Sets == "1400" && claims[0].Active.Or(false), "%+v", claims)
	m.Root.(fstest.MapFS)["etc/dhcpcd.conf"] = file("nooption interface_mtu\n")
	claims, _ = m.Claims(t.Context(), "eth0", ids)
	must.True(t, len(claims) == 0, "refused: %+v", claims)
}

func TestProcesses(t *testing.T) {
	files := fstest.MapFS{
		"proc/1/comm": file("systemd\n"), "proc/20/comm": file("NetworkManager\n"), "proc/30/comm": file("tuned\n"), "proc/self/comm": file("me\n"),
	}
	got := must.Get(processes(t.Context(), files))(t)
	must.True(t, len(got) == 3 && got["tuned"] && !got["me"], "%v", got)
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	files["proc/self/ns/net"], files["proc/1/ns/net"] = link("net:[4026531840]"), link("net:[4026531840]")
	files["proc/20/ns/net"] = link("net:[4026532000]") // this one manages other interfaces
	got, err := processes(t.Context(), files)
	must.True(t, err == nil && !got["NetworkManager"] && got["tuned"] && got["systemd"], "namespaces: %v, %v", got, err)
	must.Fail(t, must.Err(processes(t.Context(), fstest.MapFS{"etc/x": file("")})), "no /proc: no error")
	must.Fail(t, must.Err(processes(t.Context(), fstest.MapFS{"proc/x": file("")})), "an empty /proc: no error")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(t, must.Err(processes(ctx, files)), "no end")
}

// TestHere reads everything from this machine. The answers depend on the machine but must be
// consistent.
func TestHere(t *testing.T) {
	m := Here(knob.NewIndex())
	all := lists.Each(knob.Catalogue(), func(k knob.Knob) model.KnobID { return k.ID })
	link := map[string]string{"linux": "lo", "freebsd": "lo0", "darwin": "lo0"}[runtime.GOOS]
	claims := must.Get(m.Claims(t.Context(), link, all))(t)
	for _, c := range claims {
		must.True(t, c.Manager != "" && c.When != "" && (c.Line <= 0 || strings.HasPrefix(c.File, "/")), "%+v", c)
	}
	if runtime.GOOS != "linux" {
		return
	}
	running := must.Get(m.Running(t.Context()))(t)
	must.True(t, len(running) != 0, "running: %v", running)
	_, why, err := m.Owner(t.Context(), "lo")
	must.True(t, err != nil || why != "", "an owner without a reason")
}

// FuzzClaims puts arbitrary text into every file that is read.
func FuzzClaims(f *testing.F) {
	f.Add([]byte("mine\n[main]\ninclude=mine,other\n[variables]\na=${b}\nb=${a}${a}\n[sysctl]\nnet.ipv4.tcp_sack=>${a}\n[net]\nring=rx 1\n[sysfs]\n/sys/class/net/*/mtu=1\n"))
	f.Add([]byte("[keyfile]\nunmanaged-devices=except:;mac:x\n[device-a]\nmatch-device=*\nmanaged=1\n"))
	f.Add([]byte("lease {\n interface \"eth0\";\n option interface-mtu 1400;\n}\naction \"ifconfig eth0 mtu 1\";\n"))
	f.Add([]byte("{\"mtu\": 1450, \"bridge\": \"eth0\", \"plugins\": [{\"bridge\": \"eth0\", \"mtu\": 1}]}"))
	f.Add([]byte("# cloud-init\nnetwork: {config: disabled, ethernets: {eth0: {mtu: 1}}}\n"))
	f.Add(packet(26, 2, 5, 0x78, 255))
	f.Fuzz(func(t *testing.T, text []byte) {
		files := fstest.MapFS{"sys/class/net/eth0/ifindex": file("2")}
		for _, name := range []string{
			"etc/tuned/active_profile", "etc/tuned/tuned-main.conf", "etc/tuned/mine/tuned.conf", "usr/lib/tuned/other/tuned.conf",
			"etc/NetworkManager/NetworkManager.conf", "etc/NetworkManager/conf.d/a.conf", "run/NetworkManager/devices/2",
			"etc/NetworkManager/system-connections/a.nmconnection", "etc/systemd/network/a.network", "run/systemd/netif/leases/2",
			"run/systemd/netif/links/2", "var/lib/dhcp/dhclient.leases", "var/lib/dhcpcd/eth0.lease", "etc/dhcpcd.conf", "etc/docker/daemon.json",
			"etc/cni/net.d/a.conflist", "etc/netplan/a.yaml", "etc/cloud/cloud.cfg", "etc/cloud/cloud.cfg.d/a.cfg", "proc/cmdline",
			"proc/sys/net/ipv6/conf/eth0/mtu", "sys/class/net/eth0/mtu", "etc/sysctl.conf", "etc/devd.conf", "etc/rc.conf",
			"run/network/ifstate", "etc/network/interfaces", "etc/sysconfig/network-scripts/ifcfg-eth0",
		} {
			files[name] = &fstest.MapFile{Data: text}
		}
		files["etc/tuned/active_profile"] = file("mine other")
		for _, system := range []string{"linux", "freebsd", "darwin"} {
			m := Machine{Root: files, System: system, Running: linux(fstest.MapFS{}, "tuned").Running}
			claims := must.Get(m.Claims(t.Context(), "eth0", ids))(t)
			again := must.Get(m.Claims(t.Context(), "eth0", ids))(t)
			must.Equal(t, fmt.Sprint(claims), fmt.Sprint(again), "not the same twice:\n%v\n%v", claims, again)
			f, why, err := m.Owner(t.Context(), "eth0")
			must.True(t, (err == nil) == (f != "" && why != ""), "owner %q, %q, %v", f, why, err)
		}
	})
}

func at(file string, number int, text string) model.FileLine {
	return model.FileLine{File: file, Number: number, Text: text}
}

func TestLines(t *testing.T) {
	ids := []model.KnobID{"tcp.recv_buffer_max", "tcp.sack", "socket.recv_buffer_max", "link.mtu", "netisr.threads", "no.such"}
	for name, c := range map[string]struct {
		system string
		files  fstest.MapFS
		want   map[model.KnobID]model.FileLine
	}{
		"nothing": {"linux", fstest.MapFS{}, nil},
		"order of sysctl.d": {"linux", fstest.MapFS{
			"usr/lib/sysctl.d/50-vendor.conf": file("net.ipv4.tcp_sack = 0\nnet.core.rmem_max=1\n"),
			"etc/sysctl.d/50-vendor.conf":     file("# replaces the vendor's\n\n-net/ipv4/tcp_rmem = 4096 1 2\n"),
			"etc/sysctl.d/90-mine.conf":       file("; later\nnet.ipv4.tcp_rmem=4096 131072 6291456\nno assignment\n"),
			"etc/sysctl.d/99-not-read":        file("net.ipv4.tcp_sack = 0\n"),
		}, map[model.KnobID]model.FileLine{"tcp.recv_buffer_max": at("/etc/sysctl.d/90-mine.conf", 2, "4096 131072 6291456")}},
		"sysctl.conf last": {"linux", fstest.MapFS{
			"etc/sysctl.conf":          file("net.ipv4.tcp_sack = 1\nnet.core.rmem_max = 5\n"),
			"etc/sysctl.d/10-a.conf":   file("net.ipv4.tcp_sack = 0\n"),
			"run/sysctl.d/99-sys.conf": file("net.core.rmem_max = 5\n"),
		}, map[model.KnobID]model.FileLine{"tcp.sack": at("/etc/sysctl.conf", 1, "1"), "socket.recv_buffer_max": at("/etc/sysctl.conf", 2, "5")}},
		"ifupdown": {"linux", fstest.MapFS{
			"etc/network/interfaces":        file("auto eth0\niface eth1 inet dhcp\n mtu 1400\niface eth0 inet static\n  address 192.0.2.1/24\n  mtu 9000\nauto eth2\n mtu 1\n"),
			"etc/systemd/network/10-a.link": file("[Match]\nOriginalName=eth0\n[Link]\nMTUBytes=4000\n"),
		}, map[model.KnobID]model.FileLine{"link.mtu": at("/etc/network/interfaces", 6, "9000")}},
		"systemd.link": {"linux", fstest.MapFS{
			"usr/lib/systemd/network/99-default.link": file("[Match]\nOriginalName=*\n[Link]\nMTUBytes=1500\n"),
			"etc/systemd/network/10-a.link":           file("[Match]\nOriginalName=eth?\n[Link]\nMTUBytes=4000\n"),
		}, map[model.KnobID]model.FileLine{"link.mtu": at("/etc/systemd/network/10-a.link", 4, "4000")}},
		"a first match without MTU": {"linux", fstest.MapFS{
			"etc/systemd/network/10-a.network": file("[Match]\nName=eth0\n"),
			"etc/systemd/network/20-b.network": file("[Match]\nName=e*\n[Link]\nMTUBytes=4000\n"),
		}, nil},
		"NetworkManager": {"linux", fstest.MapFS{
			"etc/NetworkManager/system-connections/a.nmconnection": file("[connection]\ninterface-name=eth0\n[ethernet]\nmtu=1400\n"),
			"etc/NetworkManager/system-connections/b.nmconnection": file("[connection]\nid=b\n[ethernet]\nmtu=1300\n"),
		}, map[model.KnobID]model.FileLine{"link.mtu": at("/etc/NetworkManager/system-connections/a.nmconnection", 4, "1400")}},
		"freebsd": {"freebsd", fstest.MapFS{
			"boot/loader.conf": file("net.isr.maxthreads=\"4\" # cores\n"),
			"etc/sysctl.conf":  file("net.inet.tcp.recvbuf_max=4194304  # 4 MiB\n"),
			"etc/rc.conf":      file("ifconfig_eth0=\"inet 192.0.2.1/24 mtu 9000\"\nifconfig_em1='mtu 1'\n"),
		}, map[model.KnobID]model.FileLine{
			"tcp.recv_buffer_max": at("/etc/sysctl.conf", 1, "4194304"), "link.mtu": at("/etc/rc.conf", 1, "9000"),
			"netisr.threads": at("/boot/loader.conf", 1, "4"),
		}},
		"other systems": {"windows", fstest.MapFS{"etc/sysctl.conf": file("net.ipv4.tcp_sack = 1\n")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := find(t, c.files, c.system, "eth0", ids...)
			must.Equal(t, len(got), len(c.want), "%+v, want %+v", got, c.want)
			for id, want := range c.want {
				must.Equal(t, got[id], want, "%s", id)
			}
		})
	}
	got := find(t, fstest.MapFS{"etc/network/interfaces": file("iface eth0 inet dhcp\nmtu 9\n")}, "linux", "", ids...)
	must.True(t, len(got) == 0, "without an interface: %+v", got)
}

func FuzzLines(f *testing.F) {
	f.Add("net.ipv4.tcp_sack = 1\n[Match]\nName=eth0\n[Link]\nMTUBytes=9000\n")
	f.Add("iface eth0 inet static\n mtu 9000\nsource *\nifconfig_eth0=\"mtu 9000\"\n[connection]\ninterface-name=eth0\n[ethernet]\nmtu=9000")
	f.Add("network:\n  ethernets:\n    eth0: {mtu: 9000}\n")
	f.Add("<plist><dict><key>ProgramArguments</key><array><string>sysctl</string><string>net.inet.tcp.sack=1</string></array></dict></plist>")
	f.Add("DEVICE=eth0\nMTU=1400\nETHTOOL_OPTS=\"-G eth0 rx 1\"\nE:ID_NET_NAME_MAC=enx001122334455\n1")
	ids := []model.KnobID{"link.mtu", "tcp.sack", "nic.ring.rx"}
	f.Fuzz(func(t *testing.T, text string) {
		files := fstest.MapFS{"sys/class/net/eth0/ifindex": file("2")}
		for _, name := range []string{
			"etc/sysctl.d/a.conf", "etc/sysctl.conf", "etc/network/interfaces", "etc/systemd/network/a.link", "etc/systemd/network/a.network",
			"etc/systemd/network/a.link.d/b.conf", "etc/NetworkManager/system-connections/a.nmconnection", "run/NetworkManager/devices/2",
			"run/systemd/netif/links/2", "run/udev/data/n2", "sys/class/net/eth0/address", "sys/class/net/eth0/uevent",
			"etc/sysconfig/network-scripts/ifcfg-eth0", "etc/netplan/a.yaml", "run/netplan/b.yaml", "etc/rc.conf", "boot/loader.conf",
			"Library/LaunchDaemons/a.plist",
		} {
			files[name] = file(text)
		}
		for _, system := range []string{"linux", "freebsd", "darwin"} {
			for id, l := range find(t, files, system, "eth0", ids...) {
				must.True(t, l.Number >= 1 && l.File != "", "%s: %+v", id, l)
			}
		}
	})
}
