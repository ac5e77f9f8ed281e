package manager

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

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
		why  string // part of it
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

// The lists are those of NetworkManager.conf(5), "Device List Format".
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

// The sections are in the order of NetworkManager.conf(5), "Sections".
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
