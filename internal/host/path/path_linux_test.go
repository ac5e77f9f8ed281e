package path

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/ipc"
	"golang.zx2c4.com/wireguard/tun"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/facts"
	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// has adds a link. If the kernel does not support this kind it logs that and returns false.
func has(t *testing.T, l netlink.Link, address string) bool {
	t.Helper()
	if err := netlink.LinkAdd(l); err != nil {
		t.Logf("skipped: this kernel makes no %s: %v", l.Type(), err)
		return false
	}
	if address != "" {
		a, err := netlink.ParseAddr(address)
		if err == nil {
			err = netlink.AddrAdd(l, a)
		}
		must.Do(t, err)
	}
	must.Do(t, netlink.LinkSetUp(l))
	return true
}

func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	return must.Get(netlink.LinkByName(name))(t)
}

func attrs(name string, mtu int) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU = name, mtu
	return a
}

// way returns the route to peer as text, and its hops.
func way(t *testing.T, peer string) (string, []model.Hop) {
	t.Helper()
	hops := Read(facts.Read(t.Context(), nil, model.Near, peer, ""))
	words := lists.Each(hops, func(h model.Hop) string { return strings.TrimSpace(fmt.Sprintf("%s %s", h.Kind, h.Name)) })
	return strings.Join(words, " > "), hops
}

// TestReadInNamespace builds links of every kind that this kernel supports, and reads the
// routes over them.
func TestReadInNamespace(t *testing.T) { knobtest.InNamespace(t, testReadInNamespace) }

func testReadInNamespace(t *testing.T) {
	must.SkipIf(t, !has(t, &netlink.Veth{LinkAttrs: attrs("va", 1500), PeerName: "vb"}, "10.1.0.1/24"), "this kernel makes no veth: there is nothing to build on")
	must.Do(t, netlink.LinkSetUp(link(t, "vb")))
	neighbour := &netlink.Neigh{LinkIndex: link(t, "va").Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
		IP: net.ParseIP("10.1.0.2"), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}}
	must.Do(t, netlink.NeighSet(neighbour))
	got, hops := way(t, "10.1.0.2")
	must.True(t, got == "veth va > neighbour 10.1.0.2" && hops[0].To == "vb" && strings.Contains(hops[1].Note, "02:00:00:00:00:09") && !hops[1].MTU.IsKnown(), "veth: %s, %+v", got, hops)
	if has(t, &netlink.Vxlan{LinkAttrs: attrs("vx", 1450), VxlanId: 7, Group: net.ParseIP("10.1.0.2"), Port: 4789}, "10.2.0.1/24") {
		got, hops := way(t, "10.2.0.2")
		must.True(t, got == "vxlan vx > veth va > neighbour 10.1.0.2" && hops[0].To == "10.1.0.2" && hops[0].MTU.Or(0) == 1450, "VXLAN: %s, %+v", got, hops)
	}
	if has(t, &netlink.Vlan{LinkAttrs: func() netlink.LinkAttrs {
		a := attrs("va.5", 1496)
		a.ParentIndex = link(t, "va").Attrs().Index
		return a
	}(), VlanId: 5}, "10.3.0.1/24") {
		got, _ := way(t, "10.3.0.2")
		must.True(t, got == "vlan va.5 > veth va > neighbour 10.3.0.2", "VLAN: %s", got)
	}
	if has(t, &netlink.Bridge{LinkAttrs: attrs("br", 1500)}, "10.4.0.1/24") {
		must.Need(t, has(t, &netlink.Veth{LinkAttrs: attrs("p0", 1500), PeerName: "q0"}, "") && has(t, &netlink.Veth{LinkAttrs: attrs("p1", 1500), PeerName: "q1"}, ""), "no more veths")
		for _, name := range []string{"p0", "p1"} {
			must.Do(t, netlink.LinkSetMaster(link(t, name), link(t, "br")))
		}
		got, hops := way(t, "10.4.0.2")
		must.True(t, got == "bridge br" && strings.Contains(hops[0].Note, "not visible"), "a bridge that does not know: %s, %+v", got, hops)
	}
	if has(t, netlink.NewLinkBond(attrs("bo", 1500)), "10.5.0.1/24") {
		got, _ := way(t, "10.5.0.2")
		must.True(t, strings.HasPrefix(got, "bond bo"), "bond: %s", got)
	}
	if has(t, &netlink.Wireguard{LinkAttrs: attrs("wg", 1420)}, "10.6.0.1/24") {
		got, hops := way(t, "10.6.0.2")
		must.True(t, got == "wireguard wg" && strings.Contains(hops[0].Note, "not visible"), "WireGuard: %s, %+v", got, hops)
	}
	got, _ = way(t, "10.1.0.1")
	must.True(t, got == "loopback lo", "this host itself: %s", got)
}

// key returns a new key pair in WireGuard's encoding.
func key(t *testing.T) (private, public string) {
	t.Helper()
	k := must.Get(ecdh.X25519().GenerateKey(rand.Reader))(t)
	return hex.EncodeToString(k.Bytes()), hex.EncodeToString(k.PublicKey().Bytes())
}

// TestWireGuardInNamespace: WireGuard runs in its own process, which needs only a TUN device
// from the kernel. Its peers determine where packets to an address go.
func TestWireGuardInNamespace(t *testing.T) { knobtest.InNamespace(t, testWireGuardInNamespace) }

func testWireGuardInNamespace(t *testing.T) {
	private := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); private != nil || err != nil {
		t.Skipf("no /run of its own: %v, %v", private, err)
	}
	if err := os.MkdirAll("/var/run/wireguard", 0o700); err != nil {
		t.Skipf("no folder for the socket: %v", err)
	}
	must.SkipIf(t, !has(t, &netlink.Veth{LinkAttrs: attrs("va", 1500), PeerName: "vb"}, "10.1.0.1/24"), "this kernel makes no veth: there is nothing to build on")
	must.Do(t, netlink.LinkSetUp(link(t, "vb")))
	dev, err := tun.CreateTUN("wg0", 1420)
	must.SkipIf(t, err != nil, "this system makes no TUN device: %v", err)
	wg := device.NewDevice(dev, conn.NewDefaultBind(), device.NewLogger(device.LogLevelError, ""))
	defer wg.Close()
	own, _ := key(t)
	_, office := key(t)
	_, rest := key(t)
	must.Do(t, wg.IpcSet(fmt.Sprintf("private_key=%s\npublic_key=%s\nendpoint=10.1.0.2:51820\nallowed_ip=10.6.0.0/24\npublic_key=%s\nendpoint=10.1.0.3:51820\nallowed_ip=0.0.0.0/0\n", own, office, rest)))
	a, err := netlink.ParseAddr("10.6.0.1/16")
	if err == nil {
		err = netlink.AddrAdd(link(t, "wg0"), a)
	}
	if err == nil {
		err = netlink.LinkSetUp(link(t, "wg0"))
	}
	must.Do(t, err)
	got, hops := way(t, "10.6.0.2")
	must.True(t, got == "tunnel wg0" && strings.Contains(hops[0].Note, "not visible"), "no peer to ask: %s, %+v", got, hops)
	l := must.Get(ipc.UAPIListen("wg0", must.Get(ipc.UAPIOpen("wg0"))(t)))(t)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func(c net.Conn) { wg.IpcHandle(c) }(c)
		}
	}()
	for inner, want := range map[string]string{"10.6.0.2": "10.1.0.2", "10.6.9.2": "10.1.0.3"} {
		got, hops := way(t, inner)
		must.True(t, got == "tunnel wg0 > veth va > neighbour "+want && hops[0].To == want && hops[0].MTU.Or(0) == 1420, "to %s: %s, %+v", inner, got, hops)
	}
	for name, address := range map[string]string{"tailscale0": "10.9.0.1/24", "tun9": "100.101.102.103/32"} {
		made := must.Get(tun.CreateTUN(name, 1280))(t)
		defer made.Close()
		a, err := netlink.ParseAddr(address)
		if err == nil {
			err = netlink.AddrAdd(link(t, name), a)
		}
		if err == nil {
			err = netlink.LinkSetUp(link(t, name))
		}
		if err == nil {
			_, network, _ := net.ParseCIDR(map[string]string{"tailscale0": "10.19.0.0/24", "tun9": "100.64.0.0/10"}[name])
			err = netlink.RouteAdd(&netlink.Route{LinkIndex: link(t, name).Attrs().Index, Dst: network})
		}
		must.Do(t, err)
		got, hops := way(t, map[string]string{"tailscale0": "10.19.0.2", "tun9": "100.64.0.9"}[name])
		must.True(t, got == "tailscale "+name && strings.Contains(hops[0].Note, "direct or by a relay is not visible"), "%s: %s, %+v", name, got, hops)
	}
}
