package origin

import (
	"cmp"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/yamlmap"
)

// netplanDirs are the folders of netplan(5), the strongest first.
var netplanDirs = [...]string{"run/netplan", "etc/netplan", "lib/netplan", "usr/lib/netplan"}

// netplan reads netplan(5). Files come in the order of their names, whatever
// their folder is; what a later one says of a definition amends it:
//
//	network:
//	  version: 2
//	  ethernets:
//	    lan:
//	      match: {macaddress: "00:11:22:33:44:55"}
//	      set-name: eth0
//	      mtu: 9000
func (f *finder) netplan() {
	var all []*definition
	byName := make(map[string]*definition)
	global := ""
	for _, name := range f.tree.ByName(".yaml", netplanDirs[:]...) {
		network := yamlmap.Parse(f.tree.Read(name)).At("network")
		if r := network.At("renderer").Text; r != "" {
			global = r
		}
		for _, kind := range network.Keys {
			for _, one := range kind.Value.Keys {
				d := byName[kind.Key+" "+one.Key]
				if d == nil {
					d = &definition{kind: kind.Key, name: one.Key, words: make(map[string]model.FileLine)}
					byName[kind.Key+" "+one.Key] = d
					all = append(all, d)
				}
				d.amend(name, one)
			}
		}
	}
	table := netplanKeys()
	for _, d := range all {
		if d.isFor(f.dev) != device.Yes {
			continue
		}
		renderer := "networkd" // the default
		for _, r := range []string{global, d.words["renderer"].Text} {
			if r != "" {
				renderer = r
			}
		}
		f.define(Netplan, d.last, renderer)
		for key, l := range d.words {
			if s, ok := table[key]; ok && l.Text != "" {
				f.say(Netplan, s.knob, l, s.text(l.Text))
			}
		}
	}
}

// definition is what all files together say of one name.
type definition struct {
	kind, name string                    // "ethernets", "eth0"
	words      map[string]model.FileLine // single values by key; those of match behind "match "
	matched    bool                      // it has a match, however empty
	last       model.FileLine            // where it was said last
}

func (d *definition) amend(file string, p yamlmap.Pair) {
	line := func(p yamlmap.Pair) model.FileLine {
		return model.FileLine{File: "/" + file, Number: p.Line, Text: p.Value.Text}
	}
	d.last = line(p)
	d.last.Text = ""
	for _, one := range p.Value.Keys {
		if one.Key != "match" {
			d.words[one.Key] = line(one)
			continue
		}
		d.matched = true
		for _, m := range one.Value.Keys {
			d.words["match "+m.Key] = line(m)
		}
	}
}

// isFor says whether a definition is the device's: by its match, which is for
// hardware only, or by its name.
func (d *definition) isFor(dev device.Device) device.Answer {
	if !d.matched {
		return is(dev.Name == d.name)
	}
	if d.words["set-name"].Text == dev.Name && dev.Name != "" {
		return device.Yes // it was found, and called so
	}
	answer := device.Yes
	if mac := d.words["match macaddress"].Text; mac != "" {
		address := cmp.Or(dev.PermanentMAC, dev.MAC)
		answer = device.And(answer, device.HasMAC(address, []string{mac}))
	}
	if name := d.words["match name"].Text; name != "" { // the current name, or the kernel's where set-name is used
		answer = device.And(answer, device.OneOf(dev.Name, []string{name}))
	}
	if driver, ok := d.words["match driver"]; ok {
		list := strings.Fields(driver.Text)
		if len(list) == 0 { // a list of YAML
			return device.And(answer, device.Maybe)
		}
		answer = device.And(answer, device.OneOf(dev.Driver, list))
	}
	return answer
}

// is turns what is known into an answer.
func is(known bool) device.Answer {
	if known {
		return device.Yes
	}
	return device.No
}
