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

	"linerate/internal/host/knob/knobtest"
	"linerate/internal/must"
)

// key returns a new pair of keys as WireGuard writes them.
func key(t *testing.T) (private, public string) {
	t.Helper()
	k := must.Get(ecdh.X25519().GenerateKey(rand.Reader))(t)
	return hex.EncodeToString(k.Bytes()), hex.EncodeToString(k.PublicKey().Bytes())
}

// TestWireGuardInNamespace: WireGuard in a process of its own, which needs nothing of the
// kernel but a TUN device: where packets to an address go is told by its peers.
func TestWireGuardInNamespace(t *testing.T) {
	if !knobtest.InNamespace(t) {
		return
	}
	private := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err := unix.Mount("none", "/run", "tmpfs", 0, ""); private != nil || err != nil {
		t.Skipf("no /run of its own: %v, %v", private, err)
	}
	if err := os.MkdirAll("/var/run/wireguard", 0o700); err != nil {
		t.Skipf("no folder for the socket: %v", err)
	}
	if !has(t, &netlink.Veth{LinkAttrs: attrs("va", 1500), PeerName: "vb"}, "10.1.0.1/24") {
		t.Skip("this kernel makes no veth: there is nothing to build on")
	}
	must.Do(t, netlink.LinkSetUp(link(t, "vb")))
	dev, err := tun.CreateTUN("wg0", 1420)
	if err != nil {
		t.Skipf("this system makes no TUN device: %v", err)
	}
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
	f := must.Get(ipc.UAPIOpen("wg0"))(t)
	l := must.Get(ipc.UAPIListen("wg0", f))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) { wg.IpcHandle(c) }(c)
		}
	}()
	for inner, want := range map[string]string{"10.6.0.2": "10.1.0.2", "10.6.9.2": "10.1.0.3"} {
		got, hops := way(t, inner)
		must.True(t, got == "tunnel wg0 > veth va > neighbour "+want && hops[0].To == want && hops[0].MTU.Or(0) == 1420,
			"to %s: %s, %+v", inner, got, hops)
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
		peer := map[string]string{"tailscale0": "10.19.0.2", "tun9": "100.64.0.9"}[name]
		got, hops := way(t, peer)
		must.True(t, got == "tailscale "+name && strings.Contains(hops[0].Note, "direct or by a relay is not visible"), "%s: %s, %+v", name, got, hops)
	}
}
