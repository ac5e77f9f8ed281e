package networkd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/command"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
)

// Format is systemd.network(5) and systemd.link(5), for settings of links. Its zero value is
// ready to use.
type Format struct{}

// Outcome implements files.Format. No program can be asked: systemd-networkd takes no other
// root, and udevadm of version 252 changes the device that it is asked about.
func (Format) Outcome(_ context.Context, h files.Host) (files.Outcome, error) {
	return Outcome(h, "documented rules of systemd.network(5) and systemd.link(5)"), nil
}

// Outcome returns what udev and systemd-networkd make of the files of a host.
func Outcome(h files.Host, judge string) files.Outcome {
	c := read(h)
	o := files.Outcome{Judge: judge}
	for _, u := range c.netdevs {
		name := u.Text("NetDev", "Name")
		for _, e := range u.INI {
			if e.Section+"."+e.Key != "NetDev.MTUBytes" { // the MTU of the device covers that
				appendValue(&o, "netdev/"+name+"/"+e.Section+"."+e.Key, e.FileLine)
			}
		}
	}
	for _, d := range c.devices {
		c.link(&o, d)
		c.network(&o, d)
		if d.Type != "loopback" {
			o.Set(files.LinkKey(d.Name, "link.mtu"), c.mtu(d, nil))
		}
	}
	return o
}

// config is the files of a host, read once.
type config struct {
	tree                     tree.Tree
	links, networks, netdevs []Unit
	devices                  []device.Device // devices of the kernel, and those that .netdev files define; master and parent as configured
}

// drivers maps kinds of devices to their words in ETHTOOL_GDRVINFO: br_getinfo of
// net/bridge/br_device.c, bond_ethtool_get_drvinfo, vlan_ethtool_get_drvinfo.
var drivers = map[string]string{"bridge": "bridge", "bond": "bonding", "vlan": "802.1Q VLAN Support", "veth": "veth", "dummy": "dummy"}

func read(h files.Host) *config {
	t := h.Tree()
	c := &config{tree: t, links: units(t, LinkFile), networks: units(t, NetworkFile), devices: slices.Clone(h.Devices)}
	for _, u := range units(t, netdevFile) {
		name := u.Text("NetDev", "Name")
		if name == "" || slices.ContainsFunc(c.netdevs, func(o Unit) bool { return o.Text("NetDev", "Name") == name }) {
			continue // the first one creates the device
		}
		c.netdevs = append(c.netdevs, u)
		if !slices.ContainsFunc(c.devices, func(d device.Device) bool { return d.Name == name }) {
			kind := u.Text("NetDev", "Kind")
			c.devices = append(c.devices, device.Device{Name: name, KernelName: name, Kind: kind, Type: kind, Driver: drivers[kind]})
		}
	}
	for i := range c.devices {
		d := &c.devices[i]
		n, _ := c.winner(*d, NetworkFile)
		if master := cmp.Or(n.Text("Network", "Bond"), n.Text("Network", "Bridge")); master != "" {
			d.Master = master
		}
		for _, e := range n.Section("Network") {
			if !slices.Contains([]string{"VLAN", "MACVLAN", "MACVTAP"}, e.Key) {
				continue
			}
			for j := range c.devices {
				if c.devices[j].Name == e.Text {
					c.devices[j].Parent = d.Name
				}
			}
		}
	}
	return c
}

// winner is Winner over the files read.
func (c *config) winner(d device.Device, ending string) (Unit, bool) {
	if ending == LinkFile {
		return winner(c.links, d, ending, recorded(c.tree, d, ending))
	}
	return winner(c.networks, d, ending, recorded(c.tree, d, ending), c.alternatives(d)...)
}

// alternatives returns the further names that udev gives a device, which Name= of a .network
// file matches too.
func (c *config) alternatives(d device.Device) (all []string) {
	u, _ := c.winner(d, LinkFile)
	for _, e := range u.Section("Link") {
		switch e.Key {
		case "AlternativeName":
			all = append(all, strings.Fields(e.Text)...)
		case "AlternativeNamesPolicy":
			for policy := range strings.FieldsSeq(e.Text) {
				if policy == "database" {
					policy = "from_database"
				}
				if name := d.Properties["ID_NET_NAME_"+strings.ToUpper(policy)]; name != "" {
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// views returns a device under each name that udev may see when it sets the device up: the
// kernel's at a cold start, and the present one if the initramfs renamed it.
func views(d device.Device) []device.Device {
	if d.KernelName == d.Name {
		return []device.Device{d}
	}
	renamed := d
	renamed.KernelName = d.Name
	return []device.Device{d, renamed}
}

// link adds what udev does to a device. If that depends on the name that udev sees, the value
// has both.
func (c *config) link(o *files.Outcome, d device.Device) {
	var seen []files.Outcome
	for _, v := range views(d) {
		var one files.Outcome
		u, _ := c.winner(v, LinkFile)
		if d.Type != "loopback" { // without a setting udev leaves the driver's value, and a virtual device has none
			one.Set(files.LinkKey(d.Name, "nic.wol"), model.FileLine{Text: cmp.Or(d.WakeOnLAN, "off")})
		}
		for _, e := range u.Section("Link") {
			key, value := outcomeKey(d.Name, e.Key, e.Text)
			switch {
			case e.Key == "MTUBytes": // mtu judges it beside those of other files
			case key != "":
				l := e.FileLine
				l.Text = value
				one.Set(key, l)
			default:
				appendValue(&one, "link/"+d.Name+"/udev/"+e.Key, e.FileLine)
			}
		}
		seen = append(seen, one)
	}
	for _, one := range seen {
		for key := range one.Values {
			l := seen[0].Values[key]
			for _, other := range seen[1:] {
				if b := other.Values[key]; b.Text != l.Text {
					l = model.FileLine{File: cmp.Or(b.File, l.File), Number: cmp.Or(b.Number, l.Number), Text: cmp.Or(l.Text, "unset") + " or " + cmp.Or(b.Text, "unset")}
				}
			}
			o.Set(key, l)
		}
	}
}

// network adds what systemd-networkd does to a device, except for its MTU.
func (c *config) network(o *files.Outcome, d device.Device) {
	u, _ := c.winner(d, NetworkFile)
	for _, e := range u.INI {
		if e.Section != "Match" && e.Section+"."+e.Key != "Link.MTUBytes" {
			appendValue(o, "link/"+d.Name+"/network/"+e.Section+"."+e.Key, e.FileLine)
		}
	}
}

// appendValue adds to a list; an empty assignment clears it.
func appendValue(o *files.Outcome, key string, l model.FileLine) {
	if before, ok := o.Values[key]; ok && before.Text != "" && l.Text != "" {
		l.Text = before.Text + ", " + l.Text
	}
	o.Set(key, l)
}

// usualMTU is the default MTU of Ethernet devices: ETH_DATA_LEN of
// include/uapi/linux/if_ether.h.
const usualMTU = "1500"

// mtu returns the MTU that a device will have: that of its .network file, of its .netdev or
// .link file, of the bond that it is a port of, of a VLAN above it that needs more, of a
// device below it, or the default. below stops at devices stacked on themselves.
func (c *config) mtu(d device.Device, below []string) (got model.FileLine) {
	if slices.Contains(below, d.Name) {
		return model.FileLine{Text: usualMTU}
	}
	below = append(slices.Clone(below), d.Name)
	managed, _ := c.winner(d, NetworkFile)
	unmanaged := managed.Get("Link", "Unmanaged")
	if l := statedMTU(managed.INI, "Link"); l != nil && (unmanaged == nil || command.Switch(unmanaged.Text) != "1") {
		return c.capped(d, c.started(d, *l, below), below)
	} else if l != nil { // that line is the reason why it is not set
		defer func() { got.File, got.Number = cmp.Or(got.File, unmanaged.File), cmp.Or(got.Number, unmanaged.Number) }()
	}
	found := c.ownMTU(d)
	if master, ok := c.device(d.Master); ok && master.Kind == "bond" {
		found = c.mtu(master, below) // bond_enslave of drivers/net/bonding/bond_main.c
	}
	if found.Text == "" {
		found = c.inherited(d, below)
	}
	found = c.capped(d, found, below)
	if managed.File == "" {
		return found
	}
	for _, v := range c.devices { // "Bumping MTU" of systemd-networkd
		if u, _ := c.winner(v, NetworkFile); v.Parent == d.Name {
			if l := statedMTU(u.INI, "Link"); l != nil && number(*l) > number(found) {
				found = *l
			}
		}
	}
	return found
}

// started returns the MTU in the .network file of a device. networkd does not set it on a
// bridge that starts with that value; the bridge then follows its ports like one without an
// MTU, unless they had theirs before (br_mtu_auto_adjust of net/bridge/br_if.c).
func (c *config) started(d device.Device, l model.FileLine, below []string) model.FileLine {
	if d.Kind != "bridge" || number(l) != number(cmp.Or(c.netdevMTU(d), model.FileLine{Text: usualMTU})) {
		return l
	}
	if least := c.smallest(d, below); least.Text != "" && number(least) != number(l) {
		l.Text += " or " + least.Text
	}
	return l
}

// capped limits the MTU of a VLAN or a macvlan to that of its parent (vlan_dev_change_mtu of
// net/8021q/vlan_dev.c, macvlan_change_mtu of drivers/net/macvlan.c).
func (c *config) capped(d device.Device, l model.FileLine, below []string) model.FileLine {
	if parent, ok := c.device(d.Parent); ok {
		if most := c.mtu(parent, below); number(most) < number(l) {
			return most
		}
	}
	return l
}

// netdevMTU returns the MTU that the .netdev file gives a device.
func (c *config) netdevMTU(d device.Device) (found model.FileLine) {
	for _, u := range c.netdevs {
		if l := statedMTU(u.INI, "NetDev"); l != nil && u.Text("NetDev", "Name") == d.Name {
			found = *l
		}
	}
	return found
}

// ownMTU returns the MTU of the .netdev file, or of the .link file. A bridge loses that of
// its .netdev file when it gets a port.
func (c *config) ownMTU(d device.Device) model.FileLine {
	if l := c.netdevMTU(d); l.Text != "" && (d.Kind != "bridge" || len(c.ports(d.Name)) == 0) {
		return l
	}
	var found model.FileLine
	for i, v := range views(d) {
		var one model.FileLine
		u, _ := c.winner(v, LinkFile)
		if l := statedMTU(u.INI, "Link"); l != nil {
			one = *l
		}
		if i > 0 && one.Text != found.Text {
			one.File, one.Number = cmp.Or(one.File, found.File), cmp.Or(one.Number, found.Number)
			one.Text = cmp.Or(found.Text, usualMTU) + " or " + cmp.Or(one.Text, usualMTU)
		}
		found = one
	}
	return found
}

// inherited returns the MTU of a device without one: for a VLAN or a macvlan that of its parent, for a
// bridge the smallest of its ports.
func (c *config) inherited(d device.Device, below []string) model.FileLine {
	if parent, ok := c.device(d.Parent); ok {
		return c.mtu(parent, below)
	}
	var found model.FileLine
	if d.Kind == "bridge" {
		found = c.smallest(d, below)
	}
	if found.Text == "" {
		found.Text = usualMTU
	}
	return found
}

// smallest returns the smallest MTU of the ports of a bridge; without ports Text is "".
func (c *config) smallest(bridge device.Device, below []string) (found model.FileLine) {
	for _, p := range c.ports(bridge.Name) {
		if one := c.mtu(p, below); found.Text == "" || number(one) < number(found) {
			found = one
		}
	}
	return found
}

func (c *config) device(name string) (device.Device, bool) {
	return files.Host{Devices: c.devices}.Device(name)
}

// ports returns the ports of a bond or a bridge.
func (c *config) ports(master string) []device.Device {
	var all []device.Device
	for _, d := range c.devices {
		if d.Master == master {
			all = append(all, d)
		}
	}
	return all
}

// statedMTU returns the last MTU in a section, in bytes, or nil. A line without a valid
// number changes nothing (config_parse_mtu of systemd), and an empty one neither.
func statedMTU(all tree.INI, section string) *model.FileLine {
	for _, e := range slices.Backward(all.Section(section)) {
		l := e.FileLine
		if l.Text = sizeBytes(l.Text); e.Key == "MTUBytes" && number(l) >= leastMTU {
			return &l
		}
	}
	return nil
}

// leastMTU is IPV4_MIN_MTU of include/net/ip.h.
const leastMTU = 68

func number(l model.FileLine) int {
	n, _ := strconv.Atoi(strings.TrimSpace(l.Text)) // 0 if it is not a number
	return n
}
