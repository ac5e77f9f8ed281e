package manager

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// packet is a DHCP message as dhcpcd keeps it, RFC 2131 section 2.
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
	files["proc/20/ns/net"] = link("net:[4026532000]") // manages other interfaces
	got, err := processes(t.Context(), files)
	must.True(t, err == nil && !got["NetworkManager"] && got["tuned"] && got["systemd"], "namespaces: %v, %v", got, err)
	must.Fail(t, must.Err(processes(t.Context(), fstest.MapFS{"etc/x": file("")})), "no /proc: no error")
	must.Fail(t, must.Err(processes(t.Context(), fstest.MapFS{"proc/x": file("")})), "an empty /proc: no error")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Fail(t, must.Err(processes(ctx, files)), "no end")
}

// TestHere asks this machine about everything. What it answers is its own, but
// it has to make sense.
func TestHere(t *testing.T) {
	m := Here(knob.NewIndex())
	var all []model.KnobID
	for _, k := range knob.Catalogue() {
		all = append(all, k.ID)
	}
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

// FuzzClaims puts any text into every file that is read.
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
