package networkd

import (
	"slices"
	"strconv"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
)

// Step is the MTU that one device needs for another one to get its own.
type Step struct {
	Device device.Device
	MTU    string
	Keeps  bool // it has that MTU already, and would lose it along with the others
}

// Steps returns the devices whose MTU changes with the MTU of a link, in order. If it is
// raised, ports and parents come first, then the link, then the VLANs on them, which keep
// theirs. If it is lowered, the VLANs and the bridge on the link come first. It returns a
// *files.Refusal if another device prevents the change.
func Steps(h files.Host, link, mtu string) ([]Step, error) {
	c := read(h)
	d, ok := c.device(link)
	if !ok {
		return nil, files.Refuse(model.FileLine{}, "", "there is no interface %s", link)
	}
	if master, ok := c.device(d.Master); ok {
		l := c.mtu(master, nil)
		if u, _ := c.winner(master, NetworkFile); l.File == "" && u.File != "" {
			at := u.matchLine()
			l.File, l.Number = at.File, at.Number
		}
		if master.Kind == "bond" && l.Text != mtu {
			return nil, files.Refuse(l, "set it on "+master.Name, "%s is a port of the bond %s, which gives it its MTU", link, master.Name)
		}
	}
	s := steps{config: c}
	s.raise(d, mtu)
	return s.all, s.keep()
}

type steps struct {
	*config
	all []Step
}

func atoi(s string) int { return number(model.FileLine{Text: s}) }

// states reports whether a device's own file sets its MTU.
func (c *config) states(d device.Device) bool {
	managed, _ := c.winner(d, NetworkFile)
	return statedMTU(managed.INI, "Link") != nil || c.ownMTU(d).Text != ""
}

func (s *steps) has(name string) bool {
	for _, one := range s.all {
		if one.Device.Name == name {
			return true
		}
	}
	return false
}

// raise adds a device after those below it.
func (s *steps) raise(d device.Device, mtu string) {
	if s.has(d.Name) {
		return
	}
	at := len(s.all)
	s.all = append(s.all, Step{Device: d, MTU: mtu})
	if parent, ok := s.device(d.Parent); ok && number(s.mtu(parent, nil)) < atoi(mtu) {
		s.raise(parent, mtu)
	}
	for _, p := range s.ports(d.Name) {
		if d.Kind == "bond" || number(s.mtu(p, nil)) < atoi(mtu) {
			s.raise(p, mtu)
		}
	}
	s.all = append(append(s.all[:at:at], s.all[at+1:]...), Step{Device: d, MTU: mtu})
}

// keep adds the devices above those that change: one with a larger MTU is lowered before
// them, as the kernel does (vlan_device_event of net/8021q/vlan.c), and a VLAN keeps its MTU.
// It returns a refusal if a device can do neither.
func (s *steps) keep() error {
next:
	for i := 0; i < len(s.all); i++ {
		below := s.all[i]
		for _, d := range s.devices {
			bridge := below.Device.Master == d.Name && d.Kind == "bridge"
			on := d.Parent == below.Device.Name || bridge
			if !on || s.has(d.Name) || below.Keeps {
				continue
			}
			l := s.mtu(d, nil)
			switch {
			case bridge && !s.states(d):
				if least := s.least(d); least != number(l) {
					u, _ := s.winner(below.Device, NetworkFile)
					return files.Refuse(u.matchLine(), "set the MTU of "+d.Name+" instead, which its ports get too",
						"%s is a port of the bridge %s, which takes the MTU of its smallest port: it would get %d", below.Device.Name, d.Name, least)
				}
			case number(l) > atoi(below.MTU):
				s.all = slices.Insert(s.all, i, Step{Device: d, MTU: below.MTU})
				i-- // devices above it come before it
				continue next
			case !bridge && !s.states(d):
				s.all = append(s.all, Step{d, strconv.Itoa(number(l)), true})
			}
		}
	}
	return nil
}

// least returns the smallest MTU that a port of a bridge will have.
func (s *steps) least(bridge device.Device) int {
	least := 0
	for _, p := range s.ports(bridge.Name) {
		n := number(s.mtu(p, nil))
		if i := slices.IndexFunc(s.all, func(one Step) bool { return one.Device.Name == p.Name }); i >= 0 {
			n = atoi(s.all[i].MTU)
		}
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}
