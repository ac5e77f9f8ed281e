// Package netplan plans netplan(5) files: what the generator makes of all of them, and the
// definition that changes it.
//
// A change goes into the definition that owns the interface, under its ID and type, in a file
// that sorts after every file with that ID. netplan refuses all of its files if an ID has two
// types; an mtu of a physical device makes it write a .link file, which replaces the present
// one. linerate runs only the generator, over a copy, never the command netplan, which
// reloads udev.
package netplan

import (
	"cmp"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/tree"
	"linerate/internal/host/files/yamlmap"
)

// dirs returns the folders of netplan(5), in order of precedence.
func dirs() []string { return []string{"run/netplan", "etc/netplan", "lib/netplan", "usr/lib/netplan"} }

// Definition is what all files together say about one ID.
type Definition struct {
	Kind, ID string                    // "ethernets", "eth0"
	Words    map[string]model.FileLine // single values by key; those of match with the prefix "match "
	Matched  bool                      // it has a match, even an empty one
	Last     model.FileLine            // the last line about it
	Renderer string                    // "networkd", "NetworkManager"
}

// Read reads netplan(5). Files are sorted by name, whatever their folder; later ones amend a
// definition:
//
//	network:
//	  version: 2
//	  ethernets:
//	    lan:
//	      match: {macaddress: "00:11:22:33:44:55"}
//	      set-name: eth0
//	      mtu: 9000
func Read(t tree.Tree) []*Definition { return readFiles(t, t.Visible(".yaml", dirs()...)...) }

// readFiles is Read for some files.
func readFiles(t tree.Tree, names ...string) []*Definition {
	var all []*Definition
	byName := make(map[string]*Definition)
	global := ""
	for _, name := range names {
		network := yamlmap.Parse(t.Read(name)).At("network")
		global = cmp.Or(network.At("renderer").Text, global)
		for _, kind := range network.Keys {
			for _, one := range kind.Value.Keys {
				d := byName[kind.Key+" "+one.Key]
				if d == nil {
					d = &Definition{Kind: kind.Key, ID: one.Key, Words: make(map[string]model.FileLine)}
					byName[kind.Key+" "+one.Key] = d
					all = append(all, d)
				}
				d.amend(name, one)
			}
		}
	}
	for _, d := range all {
		d.Renderer = cmp.Or(d.Words["renderer"].Text, global, "networkd")
	}
	return all
}

func (d *Definition) amend(file string, p yamlmap.Pair) {
	line := func(p yamlmap.Pair) model.FileLine {
		return model.FileLine{File: "/" + file, Number: p.Line, Text: p.Value.Text}
	}
	d.Last = line(p)
	d.Last.Text = ""
	for _, one := range p.Value.Keys {
		if one.Key != "match" {
			d.Words[one.Key] = line(one)
			continue
		}
		d.Matched = true
		for _, m := range one.Value.Keys {
			d.Words["match "+m.Key] = line(m)
		}
	}
}

// IsFor says whether a definition is for a device: by its match, which is for hardware only,
// or by its name.
func (d *Definition) IsFor(dev device.Device) device.Answer {
	if !d.Matched {
		if dev.Name == d.ID {
			return device.Yes
		}
		return device.No
	}
	if d.Words["set-name"].Text == dev.Name && dev.Name != "" {
		return device.Yes // it was found and renamed
	}
	answer := device.Yes
	if mac := d.Words["match macaddress"].Text; mac != "" {
		if dev.PermanentMAC == "" && !dev.Hardware && (dev.Kind != "" || dev.Type == "loopback") {
			return device.No // it becomes PermanentMACAddress=, which a virtual device has not
		}
		answer = device.And(answer, device.HasMAC(cmp.Or(dev.PermanentMAC, dev.MAC), []string{mac}))
	}
	if name := d.Words["match name"].Text; name != "" { // the present name, or the kernel's if set-name is used
		answer = device.And(answer, device.OneOf(dev.Name, []string{name}))
	}
	if driver, ok := d.Words["match driver"]; ok {
		list := strings.Fields(driver.Text)
		if len(list) == 0 { // a YAML list
			return device.And(answer, device.Maybe)
		}
		answer = device.And(answer, device.OneOf(dev.Driver, list))
	}
	return answer
}

// single reports whether the definition can match only one device.
func (d *Definition) single() bool {
	return !d.Matched || d.Words["set-name"].Text != "" || d.Words["match macaddress"].Text != "" ||
		d.Words["match name"].Text != "" && !strings.ContainsAny(d.Words["match name"].Text, "*?[!")
}
