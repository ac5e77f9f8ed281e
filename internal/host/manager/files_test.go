package manager

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// link is a symbolic link in a fake tree.
func link(target string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
}

// hardware adds the files that identify the card of eth0, an e1000e, to a tree.
func hardware(files fstest.MapFS) fstest.MapFS {
	for name, f := range map[string]*fstest.MapFile{
		"sys/class/net/eth0/name_assign_type": file("1\n"),
		"sys/class/net/eth0/device/driver":    link("../../../bus/pci/drivers/e1000e"),
		"sys/class/net/eth0/uevent":           file("INTERFACE=eth0\nIFINDEX=2\n"),
	} {
		if _, given := files[name]; !given {
			files[name] = f
		}
	}
	return card(files)
}

// state is a line of a permanent file and the program that applies it.
type state struct {
	id   model.KnobID
	by   model.Manager
	line model.FileLine
}

// find returns the lines that set knobs on a machine of which only the files are known.
func find(t *testing.T, files fstest.MapFS, system, link string, ids ...model.KnobID) map[model.KnobID]model.FileLine {
	t.Helper()
	return must.Get(Machine{Root: files, System: system}.Lines(t.Context(), link, ids))(t)
}

type filesCase struct {
	files fstest.MapFS
	want  []state // the effective ones, one per knob
}

// runFiles checks the effective lines for eth0 on Linux.
func runFiles(t *testing.T, cases map[string]filesCase) {
	t.Helper()
	ids := []model.KnobID{"link.mtu", "txqueuelen", "nic.ring.rx", "nic.pause.rx", "nic.pause.autoneg", "nic.offload.tso", "nic.offload.gro",
		"nic.media.speed", "nic.media.autoneg", "nic.coalesce.rx_usecs", "nic.wol", "nic.eee", "qdisc", "tcp.sack", "tcp.recv_buffer_max"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := find(t, hardware(c.files), "linux", "eth0", ids...)
			found := must.Get(Machine{Root: c.files, System: "linux"}.ranked(t.Context(), "eth0", ids))(t)
			must.Equal(t, len(got), len(c.want), "%+v, want %+v", got, c.want)
			for _, w := range c.want {
				must.Equal(t, got[w.id], w.line, "%s", w.id)
				must.True(t, slices.ContainsFunc(found, func(c ranked) bool {
					return c.permanent && state{c.Knob, c.Manager, at(c.File, c.Line, c.Sets)} == w
				}), "%+v is not in %+v", w, found)
			}
		})
	}
}

// The formats follow netplan(5): match, set-name, files in the order of their names in all
// directories, mappings merged by name.
func TestNetplan(t *testing.T) {
	mtu := func(l model.FileLine) []state { return []state{{"link.mtu", model.ManagerNetplan, l}} }
	runFiles(t, map[string]filesCase{
		"by name": {fstest.MapFS{
			"etc/netplan/50-cloud-init.yaml": file("# a comment\nnetwork:\n  version: 2\n  ethernets:\n    eth0:\n      dhcp4: true\n      mtu: 9000\n"),
		}, mtu(at("/etc/netplan/50-cloud-init.yaml", 7, "9000"))},
		"another name": {fstest.MapFS{"etc/netplan/a.yaml": file("network: {ethernets: {eth1: {mtu: 9000}}}\n")}, nil},
		"by address": {fstest.MapFS{
			"etc/netplan/a.yaml": file("network:\n  ethernets:\n    lan:\n      match:\n        macaddress: \"00:11:22:33:44:55\"\n      mtu: 1400\n    other:\n      match: {macaddress: \"00:11:22:33:44:56\"}\n      mtu: 1300\n"),
		}, mtu(at("/etc/netplan/a.yaml", 6, "1400"))},
		"by driver and pattern": {fstest.MapFS{
			"etc/netplan/a.yaml": file("network:\n ethernets:\n  a: {match: {driver: e1000e, name: \"eth*\"}, mtu: 1400}\n  b: {match: {driver: ixgbe}, mtu: 1300}\n"),
		}, mtu(at("/etc/netplan/a.yaml", 3, "1400"))},
		"by the name that it gives": {fstest.MapFS{
			"etc/netplan/a.yaml": file("network:\n  ethernets:\n    lan:\n      match: {name: \"enp*\"}\n      set-name: eth0\n      mtu: 1400\n"),
		}, mtu(at("/etc/netplan/a.yaml", 6, "1400"))},
		"a match is not for the name": {fstest.MapFS{
			"etc/netplan/a.yaml": file("network: {ethernets: {eth0: {match: {macaddress: \"00:11:22:33:44:56\"}, mtu: 9000}}}\n"),
		}, nil},
		"amended in the order of names": {fstest.MapFS{
			"lib/netplan/30-c.yaml": file("network:\n  ethernets:\n    lan:\n      mtu: 4000\n"),
			"etc/netplan/10-a.yaml": file("network:\n  ethernets:\n    lan:\n      match: {macaddress: \"00:11:22:33:44:55\"}\n      mtu: 9000\n"),
			"run/netplan/20-b.yaml": file("network:\n  ethernets:\n    lan:\n      tcp-segmentation-offload: false\n"),
		}, []state{{"link.mtu", model.ManagerNetplan, at("/lib/netplan/30-c.yaml", 4, "4000")}, {"nic.offload.tso", model.ManagerNetplan, at("/run/netplan/20-b.yaml", 4, "0")}}},
		"one of /run hides one of /etc": {fstest.MapFS{
			"etc/netplan/a.yaml": file("network: {ethernets: {eth0: {mtu: 9000}}}\n"),
			"run/netplan/a.yaml": file("network: {ethernets: {eth0: {mtu: 1400}}}\n"),
		}, mtu(at("/run/netplan/a.yaml", 1, "1400"))},
		"over what it generates": {fstest.MapFS{
			"etc/netplan/a.yaml":                                              file("network: {ethernets: {eth0: {mtu: 9000, wakeonlan: true}}}\n"),
			"run/systemd/network/10-netplan-eth0.network":                     file("[Match]\nName=eth0\n[Link]\nMTUBytes=9000\n"),
			"run/NetworkManager/system-connections/netplan-eth0.nmconnection": file("[connection]\ninterface-name=eth0\n[ethernet]\nmtu=9000\n"),
		}, []state{{"link.mtu", model.ManagerNetplan, at("/etc/netplan/a.yaml", 1, "9000")}, {"nic.wol", model.ManagerNetplan, at("/etc/netplan/a.yaml", 1, "magic")}}},
		"no YAML": {fstest.MapFS{"etc/netplan/a.yaml": file("network: {ethernets: {eth0: {mtu: 9000\n")}, nil},
	})
	m := Machine{System: "linux", Root: hardware(fstest.MapFS{"etc/netplan/a.yaml": file("network:\n  renderer: NetworkManager\n  ethernets:\n    eth0:\n      mtu: 9000\n")})}
	s := m.search(t.Context(), "eth0", nil)
	s.linkFiles()
	must.True(t, s.netplan.Renderer == "NetworkManager" && s.netplan.Last.Number == 4, "definition: %+v", s.netplan)
}

// The formats follow systemd.link(5) and systemd.network(5): [Match], drop-ins, the first
// file that matches.
func TestSystemdMatch(t *testing.T) {
	mtu := func(l model.FileLine) []state { return []state{{"link.mtu", model.ManagerUdev, l}} }
	linkFile := func(match string) fstest.MapFS {
		return fstest.MapFS{"etc/systemd/network/10-a.link": file("[Match]\n" + match + "\n[Link]\nMTUBytes=9000\n")}
	}
	yes, no := mtu(at("/etc/systemd/network/10-a.link", 4, "9000")), []state(nil)
	udev := func(files fstest.MapFS, text string) fstest.MapFS {
		files["run/udev/data/n2"] = file(text)
		return files
	}
	cases := map[string]filesCase{
		"address with dashes":       {linkFile("MACAddress=00-11-22-33-44-55"), yes},
		"address in a list":         {linkFile("MACAddress=00:11:22:33:44:56 0011.2233.4455"), yes},
		"another address":           {linkFile("MACAddress=00:11:22:33:44:56"), no},
		"permanent address unknown": {linkFile("PermanentMACAddress=00:11:22:33:44:55"), no},
		"permanent address":         {udev(linkFile("PermanentMACAddress=00:11:22:33:44:55"), "I:1\nE:ID_NET_NAME_MAC=enx001122334455\n"), yes},
		"driver":                    {linkFile("Driver=e1000*"), yes},
		"not that driver":           {linkFile("Driver=!e1000e ixgbe"), no},
		"type":                      {linkFile("Type=ether"), yes},
		"another type":              {linkFile("Type=wlan"), no},
		"path":                      {udev(linkFile("Path=pci-0000:00:1f.*"), "E:ID_PATH=pci-0000:00:1f.6\n"), yes},
		"property":                  {udev(linkFile("Property=ID_BUS=pci ID_X=1"), "E:ID_BUS=pci\nE:ID_X=1\n"), yes},
		"no such property":          {udev(linkFile("Property=ID_BUS=usb"), "E:ID_BUS=pci\n"), no},
		"all have to match":         {linkFile("MACAddress=00:11:22:33:44:55\nOriginalName=wlan*"), no},
		"an empty match":            {linkFile("OriginalName="), no},
		"the kernel's command line": {linkFile("OriginalName=*\nKernelCommandLine=debug"), no},
		"which udev recorded":       {udev(linkFile("OriginalName=*\nKernelCommandLine=debug"), "E:ID_NET_LINK_FILE=/etc/systemd/network/10-a.link\n"), mtu(at("/etc/systemd/network/10-a.link", 5, "9000"))},
	}
	renamed := linkFile("OriginalName=eth*")
	renamed["sys/class/net/eth0/name_assign_type"] = file("4\n")
	cases["renamed since"] = filesCase{renamed, no}
	every := linkFile("OriginalName=*")
	every["sys/class/net/eth0/name_assign_type"] = file("4\n")
	cases["renamed, any name"] = filesCase{every, yes}
	masked := linkFile("OriginalName=*")
	masked["run/systemd/network/10-a.link"] = file("[Match]\nOriginalName=*\n[Link]\nMTUBytes=1400\n")
	cases["hidden by /etc"] = filesCase{masked, yes}
	dropIn := linkFile("OriginalName=*")
	dropIn["run/systemd/network/10-a.link.d/x.conf"] = file("[Link]\nMTUBytes=4K\nRxCoalesceSec=20us\nBitsPerSecond=1G\nTCPSegmentationOffload=no\n")
	cases["drop-in"] = filesCase{dropIn, []state{
		{"link.mtu", model.ManagerUdev, at("/run/systemd/network/10-a.link.d/x.conf", 2, "4096")},
		{"nic.coalesce.rx_usecs", model.ManagerUdev, at("/run/systemd/network/10-a.link.d/x.conf", 3, "20")},
		{"nic.media.speed", model.ManagerUdev, at("/run/systemd/network/10-a.link.d/x.conf", 4, "1000")},
		{"nic.offload.tso", model.ManagerUdev, at("/run/systemd/network/10-a.link.d/x.conf", 5, "0")},
	}}
	network := fstest.MapFS{
		"etc/systemd/network/10-a.network": file("[Match]\nMACAddress=00:11:22:33:44:55\n[Link]\nMTUBytes=1400\n"),
		"etc/systemd/network/20-b.network": file("[Match]\nName=eth0\n[Link]\nMTUBytes=1300\n"),
	}
	cases["network"] = filesCase{network, []state{{"link.mtu", model.ManagerNetworkd, at("/etc/systemd/network/10-a.network", 4, "1400")}}}
	recorded := fstest.MapFS{
		"etc/systemd/network/10-a.network":                   file("[Match]\nName=eth0\nSSID=x\n[Link]\nMTUBytes=1400\n"),
		"etc/systemd/network/15-b.network":                   file("[Match]\nName=eth0\nHost=desk\n[Link]\nMTUBytes=1350\n"),
		"etc/systemd/network/20-c.network":                   file("[Match]\nName=eth0\n[Link]\nMTUBytes=1300\n"),
		"run/systemd/netif/links/2":                          file("ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/20-c.network\n"),
		"usr/lib/systemd/network/80-container-host0.network": file("[Match]\nKind=veth\nName=host0\n[Link]\nMTUBytes=1\n"),
	}
	cases["network that is recorded"] = filesCase{recorded, []state{{"link.mtu", model.ManagerNetworkd, at("/etc/systemd/network/20-c.network", 4, "1300")}}}
	unmanaged := fstest.MapFS{"etc/systemd/network/10-a.network": file("[Match]\nName=eth0\n[Link]\nMTUBytes=1400\nUnmanaged=yes\n")}
	cases["unmanaged"] = filesCase{unmanaged, nil}
	runFiles(t, cases)
}

// The formats follow nm-settings-keyfile(5) and the ifcfg files of RHEL 9.
func TestConnections(t *testing.T) {
	dir := "etc/NetworkManager/system-connections/"
	mtu := func(l model.FileLine) []state { return []state{{"link.mtu", model.ManagerNetworkManager, l}} }
	runFiles(t, map[string]filesCase{
		"by address": {fstest.MapFS{
			dir + "a.nmconnection": file("[connection]\ntype=ethernet\n[ethernet]\nmac-address=00:11:22:33:44:55\nmtu=1400\n"),
		}, mtu(at("/"+dir+"a.nmconnection", 5, "1400"))},
		"by a list of names": {fstest.MapFS{
			dir + "a.nmconnection": file("[connection]\ntype=802-3-ethernet\n[match]\ninterface-name=eth*;em1;\n[802-3-ethernet]\nmtu=1400\n"),
		}, mtu(at("/"+dir+"a.nmconnection", 6, "1400"))},
		"the one that is up": {fstest.MapFS{
			"run/NetworkManager/devices/2": file("[device]\nmanaged=true\nconnection-uuid=u-2\n"),
			dir + "a.nmconnection":         file("[connection]\nuuid=u-1\ninterface-name=eth0\n[ethernet]\nmtu=1400\n"),
			dir + "b.nmconnection":         file("[connection]\nuuid=u-2\n[ethernet]\nmtu=1300\n"),
		}, mtu(at("/"+dir+"b.nmconnection", 4, "1300"))},
		"the one with priority": {fstest.MapFS{
			dir + "a.nmconnection": file("[connection]\ninterface-name=eth0\n[ethernet]\nmtu=1400\n"),
			dir + "b.nmconnection": file("[connection]\ninterface-name=eth0\nautoconnect-priority=5\n[ethernet]\nmtu=1300\n"),
			dir + "c.nmconnection": file("[connection]\ninterface-name=eth0\nautoconnect=false\nautoconnect-priority=9\n[ethernet]\nmtu=1200\n"),
		}, mtu(at("/"+dir+"b.nmconnection", 5, "1300"))},
		"more than the MTU": {fstest.MapFS{
			dir + "a.nmconnection": file("[connection]\ninterface-name=eth0\n[ethernet]\nmtu=0\n[ethtool]\nring-rx=4096\nfeature-gro=false\npause-rx=true\ncoalesce-rx-usecs=20\neee-enabled=false\n[link]\ntx-queue-length=500\n"),
		}, []state{
			{"nic.ring.rx", model.ManagerNetworkManager, at("/"+dir+"a.nmconnection", 6, "4096")}, {"nic.offload.gro", model.ManagerNetworkManager, at("/"+dir+"a.nmconnection", 7, "0")},
			{"nic.pause.rx", model.ManagerNetworkManager, at("/"+dir+"a.nmconnection", 8, "1")}, {"nic.coalesce.rx_usecs", model.ManagerNetworkManager, at("/"+dir+"a.nmconnection", 9, "20")},
			{"nic.eee", model.ManagerNetworkManager, at("/"+dir+"a.nmconnection", 10, "0")}, {"txqueuelen", model.ManagerNetworkManager, at("/"+dir+"a.nmconnection", 12, "500")},
		}},
		"ifcfg": {fstest.MapFS{
			"etc/sysconfig/network-scripts/ifcfg-lan":     file("# by hand\nHWADDR=00:11:22:33:44:55\nMTU=\"9000\"\nETHTOOL_OPTS=\"-G ${DEVICE} rx 4096; -A ${DEVICE} autoneg off\"\n"),
			"etc/sysconfig/network-scripts/ifcfg-eth1":    file("DEVICE=eth1\nMTU=1\n"),
			"etc/sysconfig/network-scripts/ifcfg-lan.bak": file("HWADDR=00:11:22:33:44:55\nMTU=2\n"),
		}, []state{
			{"link.mtu", model.ManagerNetworkManager, at("/etc/sysconfig/network-scripts/ifcfg-lan", 3, "9000")},
			{"nic.ring.rx", model.ManagerNetworkManager, at("/etc/sysconfig/network-scripts/ifcfg-lan", 4, "4096")},
			{"nic.pause.autoneg", model.ManagerNetworkManager, at("/etc/sysconfig/network-scripts/ifcfg-lan", 4, "0")},
		}},
		"ifcfg of SUSE": {fstest.MapFS{
			"etc/sysconfig/network/ifcfg-eth0": file("BOOTPROTO='dhcp'\nMTU='1400'\nETHTOOL_OPTIONS='speed 100 duplex full autoneg off'\n"),
		}, []state{
			{"link.mtu", model.ManagerWicked, at("/etc/sysconfig/network/ifcfg-eth0", 2, "1400")},
			{"nic.media.speed", model.ManagerWicked, at("/etc/sysconfig/network/ifcfg-eth0", 3, "100")},
			{"nic.media.autoneg", model.ManagerWicked, at("/etc/sysconfig/network/ifcfg-eth0", 3, "0")},
		}},
	})
}

// The formats follow interfaces(5), stanzas, source and up, and the options of the hook in
// Debian's ethtool package.
func TestInterfaces(t *testing.T) {
	main := "etc/network/interfaces"
	runFiles(t, map[string]filesCase{
		"sourced": {fstest.MapFS{
			main:                            file("source interfaces.d/*\nauto eth0\niface eth0 inet dhcp\n"),
			"etc/network/interfaces.d/lan":  file("iface eth0 inet manual\n    mtu 9000\n"),
			"etc/network/interfaces.d/lan2": file("iface eth1 inet manual\n    mtu 1\n"),
		}, []state{{"link.mtu", model.ManagerIfupdown, at("/etc/network/interfaces.d/lan", 2, "9000")}}},
		"not sourced": {fstest.MapFS{
			main:                           file("iface eth0 inet dhcp\n"),
			"etc/network/interfaces.d/lan": file("iface eth0 inet manual\n    mtu 9000\n"),
		}, nil},
		"a folder without backups": {fstest.MapFS{
			main:                               file("source-directory /etc/network/interfaces.d\nsource /etc/network/interfaces\n"),
			"etc/network/interfaces.d/lan":     file("iface eth0 inet manual\n    mtu 9000\n"),
			"etc/network/interfaces.d/lan.bak": file("iface eth0 inet manual\n    mtu 1400\n"),
		}, []state{{"link.mtu", model.ManagerIfupdown, at("/etc/network/interfaces.d/lan", 2, "9000")}}},
		"commands": {fstest.MapFS{
			main: file("iface eth0 inet manual\n  pre-up /sbin/ip link set dev $IFACE mtu 9000 txqueuelen 500\n  post-up ethtool -G eth0 rx 4096 || true; ethtool -K eth0 tso off \\\n   gro off\n" +
				"  up sysctl -w net.ipv4.tcp_rmem=\"4096 1 2\" net/ipv4/tcp_sack=0\n  up tc qdisc replace dev eth0 root fq\n  up ethtool -s eth0 wol g\n  offload-tso on\n  down ethtool -G eth0 rx 1\n  up ip link set dev eth1 mtu 1\n"),
		}, []state{
			{"link.mtu", model.ManagerIfupdown, at("/"+main, 2, "9000")}, {"txqueuelen", model.ManagerIfupdown, at("/"+main, 2, "500")},
			{"nic.ring.rx", model.ManagerIfupdown, at("/"+main, 3, "4096")}, {"nic.offload.gro", model.ManagerIfupdown, at("/"+main, 3, "0")},
			{"nic.offload.tso", model.ManagerIfupdown, at("/"+main, 8, "1")}, {"tcp.recv_buffer_max", model.ManagerIfupdown, at("/"+main, 5, "4096 1 2")},
			{"tcp.sack", model.ManagerIfupdown, at("/"+main, 5, "0")}, {"qdisc", model.ManagerIfupdown, at("/"+main, 6, "fq")}, {"nic.wol", model.ManagerIfupdown, at("/"+main, 7, "magic")},
		}},
	})
}

// procps reads sysctl.conf(5); systemd-sysctl does so only through a symbolic link.
func TestSysctlConf(t *testing.T) {
	conf, program := file("net.ipv4.tcp_sack = 1\n"), file("")
	runFiles(t, map[string]filesCase{
		"without systemd": {fstest.MapFS{"etc/sysctl.conf": conf}, []state{{"tcp.sack", model.ManagerProcpsSysctl, at("/etc/sysctl.conf", 1, "1")}}},
		"with systemd":    {fstest.MapFS{"etc/sysctl.conf": conf, "usr/lib/systemd/systemd-sysctl": program}, nil},
		"linked": {fstest.MapFS{
			"etc/sysctl.conf": conf, "usr/lib/systemd/systemd-sysctl": program, "etc/sysctl.d/99-sysctl.conf": link("../sysctl.conf"),
			"etc/sysctl.d/50-a.conf": file("net.ipv4.tcp_sack = 0\n"),
		}, []state{{"tcp.sack", model.ManagerSystemdSysctl, at("/etc/sysctl.d/99-sysctl.conf", 1, "1")}}},
	})
}

// The format follows launchd.plist(5).
func TestLaunchDaemons(t *testing.T) {
	plist := func(words string) *fstest.MapFile {
		return file("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<dict>\n" +
			"  <key>Label</key>\n  <string>net.tune=1</string>\n  <key>ProgramArguments</key>\n  <array>\n" + words + "  </array>\n  <key>RunAtLoad</key>\n  <true/>\n</dict>\n</plist>\n")
	}
	ids := []model.KnobID{"socket.buffer_max", "tcp.recv_buffer_max", "tcp.sack", "link.mtu"}
	got := find(t, fstest.MapFS{
		"Library/LaunchDaemons/a.plist": plist("    <string>/usr/sbin/sysctl</string>\n    <string>-w</string>\n    <string>net.inet.tcp.autorcvbufmax=8388608</string>\n"),
		"Library/LaunchDaemons/b.plist": plist("    <string>/bin/sh</string>\n    <string>-c</string>\n    <string>sysctl -w net.inet.tcp.sack=0 &amp;&amp; true</string>\n"),
		"Library/LaunchDaemons/c.plist": plist("    <string>/usr/sbin/networksetup</string>\n    <string>-setMTU</string>\n    <string>en0</string>\n    <string>9000</string>\n"),
		"Library/LaunchDaemons/d.plist": file("bplist00\xd1\x01\x02"),
		"etc/sysctl.conf":               file("net.inet.tcp.sack=1\n"),
	}, "darwin", "en0", ids...)
	want := map[model.KnobID]model.FileLine{
		"tcp.recv_buffer_max": at("/Library/LaunchDaemons/a.plist", 11, "8388608"), "tcp.sack": at("/Library/LaunchDaemons/b.plist", 11, "0"),
		"link.mtu": at("/Library/LaunchDaemons/c.plist", 12, "9000"),
	}
	must.Equal(t, len(got), len(want), "%+v", got)
	for id, l := range want {
		must.Equal(t, got[id], l, "%s", id)
	}
}

// TestHooks: rules of udev, scripts and units set what files of the interface's owner set
// before, unless the rule comes before the .link file.
func TestHooks(t *testing.T) {
	runs := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o755} }
	const linkFile = "[Match]\nOriginalName=eth0\n[Link]\nTransmitQueueLength=2000\n"
	rule := func(text string) []state {
		return []state{{"txqueuelen", model.ManagerUdev, at("/etc/udev/rules.d/90-q.rules", 2, text)}}
	}
	runFiles(t, map[string]filesCase{
		"a rule behind the .link file": {fstest.MapFS{"etc/systemd/network/10-a.link": file(linkFile),
			"etc/udev/rules.d/90-q.rules": file("# mine\nACTION==\"add|change\", SUBSYSTEM==\"net\", KERNEL==\"eth*\", \\\n  ATTR{tx_queue_len}=\"5000\"\n")}, rule("5000")},
		"a rule before it": {fstest.MapFS{"etc/systemd/network/10-a.link": file(linkFile),
			"etc/udev/rules.d/60-q.rules": file("SUBSYSTEM==\"net\", ATTR{tx_queue_len}=\"5000\"\n")}, []state{{"txqueuelen", model.ManagerUdev, at("/etc/systemd/network/10-a.link", 4, "2000")}}},
		"a command of a rule": {fstest.MapFS{"etc/udev/rules.d/90-q.rules": file("\nSUBSYSTEM==\"net\", RUN+=\"/sbin/ip link set %k txqueuelen 7000\"\n")}, rule("7000")},
		"a rule for others": {fstest.MapFS{"etc/udev/rules.d/90-q.rules": file("SUBSYSTEM==\"net\", KERNEL!=\"eth0\", ATTR{mtu}=\"1400\"\nSUBSYSTEM==\"net\", ATTR{address}==\"00:11:22:33:44:99\", ATTR{mtu}=\"1400\"\n" +
			"SUBSYSTEM==\"block\", ATTR{mtu}=\"1400\"\nSUBSYSTEM==\"net\", ATTR{mtu}==\"1400\"\n")}, nil},
		"a script of ifup": {fstest.MapFS{"etc/network/interfaces": file("auto eth0\niface eth0 inet static\n mtu 9000\n"), "etc/network/if-up.d/mtu": runs("#!/bin/sh\n/sbin/ip link set dev \"$IFACE\" mtu 1400\n"),
			"etc/network/if-up.d/off": file("ip link set eth0 mtu 1300\n")}, []state{{"link.mtu", model.ManagerIfupdown, at("/etc/network/if-up.d/mtu", 2, "1400")}}},
		"a script without its program": {fstest.MapFS{"etc/network/if-up.d/mtu": runs("ip link set eth0 mtu 1400\n"), "etc/networkd-dispatcher/routable.d/mtu": runs("ip link set eth0 mtu 1400\n")}, nil},
		"a dispatcher": {fstest.MapFS{"usr/bin/networkd-dispatcher": file(""), "etc/networkd-dispatcher/routable.d/mtu": runs("\nip link set $IFACE mtu 1400\n")},
			[]state{{"link.mtu", model.ManagerNetworkd, at("/etc/networkd-dispatcher/routable.d/mtu", 2, "1400")}}},
		"rc.local and a unit": {fstest.MapFS{"etc/rc.local": runs("#!/bin/sh\nsysctl -w net.ipv4.tcp_sack=0\n"), "etc/systemd/system/rings.service": file("[Service]\nExecStart=-/usr/sbin/ethtool -G eth0 rx 4096\n"),
			"etc/systemd/system/multi-user.target.wants/rings.service": file(""), "etc/systemd/system/off.service": file("[Service]\nExecStart=/usr/sbin/ethtool -G eth0 rx 512\n")},
			[]state{{"tcp.sack", model.ManagerScript, at("/etc/rc.local", 2, "0")}, {"nic.ring.rx", model.ManagerScript, at("/etc/systemd/system/rings.service", 2, "4096")}}},
	})
}
