package manager

import (
	"testing"
	"testing/fstest"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

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
