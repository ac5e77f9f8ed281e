// Package device decides which interface a configuration file is for: by its name, address,
// driver and type.
package device

import (
	"bytes"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/host/files/tree"
)

// Device is what sysfs and the udev database say about an interface of Linux. "" is unknown.
type Device struct {
	Name         string            // present name
	KernelName   string            // the kernel's name; "" if it was renamed
	Index        string            // decimal, as in the names of files below /run
	MAC          string            // present address
	PermanentMAC string            // of the card, if udev knows it
	Driver       string            // "e1000e"
	Hardware     bool              // it has a physical device
	Type         string            // systemd's word: "ether", "wlan", "loopback"
	Properties   map[string]string // of udev: ID_PATH, ID_NET_LINK_FILE
	Kind         string            // "bond", "bridge", "vlan", "macvlan", "wlan"; "" for plain hardware, "veth" and others as in the kernel
	Master       string            // the bond or bridge that it is a port of
	Parent       string            // for a VLAN or a macvlan: the device that carries it, whose MTU is its limit
	MTU          int               // present value, bytes
	WakeOnLAN    string            // what wakes the machine now, in words of systemd.link(5): "magic", "off"; set by the caller
}

// All returns every interface of sysfs, by name.
func All(t tree.Tree) []Device {
	entries, err := fs.ReadDir(t.Root, sysNet)
	if err != nil {
		return nil
	}
	var all []Device
	for _, e := range entries {
		if t.Word(path.Join(sysNet, e.Name(), "ifindex")) != "" { // bonding_masters is a file, not a device
			all = append(all, Look(t, e.Name()))
		}
	}
	return all
}

const sysNet = "sys/class/net"

// Look reads /sys/class/net/NAME and /run/udev/data/nINDEX.
func Look(t tree.Tree, name string) Device {
	d := Device{Name: name, KernelName: name}
	if name == "" || strings.ContainsAny(name, "/*") || name == "." || name == ".." {
		return d
	}
	dir := path.Join(sysNet, name)
	d.Index = t.Word(dir + "/ifindex")
	d.MAC = t.Word(dir + "/address")
	if t.Word(dir+"/name_assign_type") == renamed {
		d.KernelName = ""
	}
	if target, err := fs.ReadLink(t.Root, dir+"/device/driver"); err == nil {
		d.Driver, d.Hardware = path.Base(target), true
	}
	d.Type = arphrd[t.Word(dir+"/type")]
	for _, l := range t.Lines(dir+"/uevent", "") { // DEVTYPE=wlan
		if word, ok := strings.CutPrefix(l.Text, "DEVTYPE="); ok {
			d.Type, d.Kind = word, word
		}
	}
	d.shape(t, dir)
	if d.Index == "" || strings.Trim(d.Index, "0123456789") != "" {
		d.Index = ""
		return d
	}
	d.Properties = make(map[string]string)
	for _, l := range t.Lines("run/udev/data/n"+d.Index, "") { // E:ID_PATH=pci-0000:00:1f.6
		if key, value, ok := strings.Cut(strings.TrimPrefix(l.Text, "E:"), "="); ok && strings.HasPrefix(l.Text, "E:") {
			d.Properties[key] = value
		}
	}
	if d.Driver == "" {
		d.Driver = d.Properties["ID_NET_DRIVER"] // also set for virtual devices
	}
	if m := strings.TrimPrefix(d.Properties["ID_NET_NAME_MAC"], "enx"); len(m) == 12 {
		// made from the permanent address only, systemd.net-naming-scheme(7)
		d.PermanentMAC = strings.Join([]string{m[0:2], m[2:4], m[4:6], m[6:8], m[8:10], m[10:12]}, ":")
	}
	return d
}

// shape reads the parts of the device, and what it is a part of.
func (d *Device) shape(t tree.Tree, dir string) {
	d.MTU, _ = strconv.Atoi(t.Word(dir + "/mtu")) // 0 if unknown
	for _, kind := range []string{"bonding", "bridge"} {
		if t.Exists(path.Join(dir, kind)) {
			d.Kind = strings.TrimSuffix(kind, "ing")
		}
	}
	if target, err := fs.ReadLink(t.Root, dir+"/master"); err == nil {
		d.Master = path.Base(target)
	}
	if slices.Contains([]string{"vlan", "macvlan", "macvtap"}, d.Kind) {
		entries, _ := fs.ReadDir(t.Root, dir) // without them the parent is unknown
		for _, e := range entries {
			if lower, ok := strings.CutPrefix(e.Name(), "lower_"); ok {
				d.Parent = lower
			}
		}
	}
	if d.PermanentMAC == "" && d.Kind == "" && d.Master != "" { // a bond gives its ports its own address
		for _, l := range t.Lines("proc/net/bonding/"+d.Master, "") {
			if name, ok := strings.CutPrefix(l.Text, "Slave Interface: "); ok && name == d.Name {
				d.PermanentMAC = "?"
			}
			if mac, ok := strings.CutPrefix(l.Text, "Permanent HW addr: "); ok && d.PermanentMAC == "?" {
				d.PermanentMAC = mac
			}
		}
		d.PermanentMAC = strings.TrimPrefix(d.PermanentMAC, "?")
	}
}

// renamed is NET_NAME_RENAMED of include/uapi/linux/netdevice.h.
const renamed = "4"

// arphrd maps numbers of include/uapi/linux/if_arp.h that carry IP packets of hosts to the
// words of systemd.link(5) Type=.
var arphrd = map[string]string{"1": "ether", "32": "infiniband", "772": "loopback", "65534": "none", "512": "ppp"}

// Answer says whether a file is for a device.
type Answer int

// The answers. The zero value means that it cannot be decided here.
const (
	Maybe Answer = iota
	No
	Yes
)

// And returns Yes if all answers are Yes, and No if one is No.
func And(answers ...Answer) Answer {
	if slices.Contains(answers, No) {
		return No
	}
	if slices.Contains(answers, Maybe) {
		return Maybe
	}
	return Yes
}

// OneOf says whether text matches one of the shell patterns, and none of those that begin
// with "!" (net_condition_test_strv of systemd). If text is "", it is not known.
func OneOf(text string, patterns []string) Answer {
	answer := Absent(patterns)
	for _, p := range patterns {
		pattern, negated := strings.CutPrefix(p, "!")
		switch {
		case pattern != "*" && text == "":
			return Maybe
		case pattern != "*" && !tree.Match(pattern, text):
		case negated:
			return No
		default:
			answer = Yes
		}
	}
	return answer
}

// Absent is OneOf for a device without such a text: Yes if all patterns are negated.
func Absent(patterns []string) Answer {
	if slices.ContainsFunc(patterns, func(p string) bool { return !strings.HasPrefix(p, "!") }) {
		return No
	}
	return Yes
}

// HasMAC says whether address is in list, in any notation: "00:11:22:33:44:55",
// "00-11-22-33-44-55", "0011.2233.4455".
func HasMAC(address string, list []string) Answer {
	a, err := net.ParseMAC(address)
	if err != nil {
		return Maybe
	}
	for _, one := range list {
		if b, err := net.ParseMAC(one); err == nil && bytes.Equal(a, b) {
			return Yes
		}
	}
	return No
}
