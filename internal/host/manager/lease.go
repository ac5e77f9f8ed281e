package manager

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/networkd"
)

// leases finds the MTU from DHCP, option 26 of RFC 2132 section 5.1, in the last lease that
// the clients stored.
func (s *search) leases() {
	c := model.Claim{Knob: "link.mtu", Manager: model.ManagerDHCP, When: "whenever the lease is taken or renewed: its server names an MTU"}
	if l := s.networkdLease(); l != nil {
		c.Sets, c.File, c.Line, c.Active = l.Text, l.File, l.Number, s.networkd()
		s.add(turnLease, c)
	}
	if l := s.dhclientLease(); l != nil {
		c.Sets, c.File, c.Line, c.Active = l.Text, l.File, l.Number, s.runs("dhclient")
		s.add(turnLease, c)
	}
	for _, name := range []string{"var/lib/dhcpcd/" + s.link + ".lease", "var/lib/dhcpcd5/dhcpcd-" + s.link + ".lease", "var/db/dhcpcd/" + s.link + ".lease"} {
		mtu, ok := packetMTU(s.tree.Read(name))
		if _, refused := s.option("etc/dhcpcd.conf", "nooption", "interface_mtu"); !ok || refused {
			continue
		}
		c.Sets, c.File, c.Line, c.Active = strconv.Itoa(mtu), "/"+name, 0, s.runs("dhcpcd")
		s.add(turnLease, c)
	}
}

// networkdLease reads /run/systemd/netif/leases/INDEX, which counts if UseMTU= is set and
// MTUBytes= is not (systemd.network(5) [DHCPv4]):
//
//	ADDRESS=192.0.2.7
//	MTU=1400
func (s *search) networkdLease() *model.FileLine {
	if s.device.Index == "" || s.network.File == "" || s.states("link.mtu", model.ManagerNetworkd) {
		return nil
	}
	unit := networkd.ReadUnit(s.tree, s.network.File)
	if command.Switch(unit.Text("DHCPv4", "UseMTU")) != "1" && command.Switch(unit.Text("DHCP", "UseMTU")) != "1" {
		return nil
	}
	l, ok := s.tree.Assignments("run/systemd/netif/leases/" + s.device.Index)["MTU"]
	if !ok {
		return nil
	}
	return &l
}

// dhclientLease reads dhclient.leases(5), where the last lease counts:
//
//	lease {
//	  interface "eth0";
//	  option interface-mtu 1400;
//	}
func (s *search) dhclientLease() *model.FileLine {
	var last *model.FileLine
	for _, dir := range []string{"var/lib/dhcp", "var/lib/dhclient", "var/lib/NetworkManager", "var/db"} {
		names, err := fs.Glob(s.tree.Root, dir+"/dhclient*")
		if err != nil {
			continue
		}
		for _, name := range names {
			ours := path.Base(name) == "dhclient.leases."+s.link // FreeBSD
			var mtu *model.FileLine
			for _, l := range s.tree.Lines(name, "#") {
				words := strings.Fields(strings.TrimSuffix(l.Text, ";"))
				switch {
				case len(words) == 0:
				case words[0] == "lease":
					mtu = nil
				case words[0] == "interface" && len(words) > 1:
					ours = strings.Trim(words[1], `"`) == s.link
				case len(words) == 3 && words[0] == "option" && words[1] == "interface-mtu":
					l.Text = words[2]
					mtu = &l
				case words[0] == "}" && ours:
					last = mtu
				}
			}
		}
	}
	return last
}

// option finds a word after a key in a file of dhcpcd.conf(5).
func (s *search) option(name, key, word string) (model.FileLine, bool) {
	for _, l := range s.tree.Lines(name, "#") {
		rest, ok := strings.CutPrefix(l.Text, key+" ")
		if ok && strings.Contains(rest, word) {
			return l, true
		}
	}
	return model.FileLine{}, false
}

// packetMTU returns option 26 of a DHCP message as dhcpcd stores it: 236 bytes, the magic
// cookie, then options (RFC 2131 section 3, RFC 2132 section 2).
func packetMTU(b []byte) (mtu int, ok bool) {
	const header = 236
	if len(b) < header+4 || !bytes.Equal(b[header:header+4], []byte{99, 130, 83, 99}) {
		return 0, false
	}
	for b = b[header+4:]; len(b) > 0 && b[0] != 255; {
		if b[0] == 0 { // pad
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return 0, false
		}
		if b[0] == 26 && b[1] == 2 {
			return int(binary.BigEndian.Uint16(b[2:])), true
		}
		b = b[2+int(b[1]):]
	}
	return 0, false
}

// advertisements finds limits of IPv6 set by routers: accept_ra_mtu of ip-sysctl.rst, which
// sets the MTU of IPv6 on the interface, not the interface's own.
func (s *search) advertisements() {
	dir := "proc/sys/net/ipv6/conf/" + s.link
	mtu6, err := strconv.Atoi(s.tree.Word(dir + "/mtu"))
	mtu, err2 := strconv.Atoi(s.tree.Word("sys/class/net/" + s.link + "/mtu"))
	if err != nil || err2 != nil || s.link == "" || mtu6 >= mtu || s.tree.Word(dir+"/accept_ra_mtu") == "0" {
		return
	}
	accepts := s.tree.Word(dir + "/accept_ra")
	if accepts == "0" && s.network.File == "" { // networkd handles advertisements itself, and turns the kernel's off
		return
	}
	s.add(turnLease, model.Claim{
		Knob: "link.mtu", Manager: model.ManagerRouterAdvertisement, Active: atStart(), File: "/" + dir + "/mtu",
		When: "for IPv6 only, which a router has limited to " + strconv.Itoa(mtu6) + " bytes",
	})
}
