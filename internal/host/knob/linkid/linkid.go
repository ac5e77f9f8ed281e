// Package linkid tells network interfaces apart by more than their names, which
// another one may bear tomorrow.
package linkid

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
)

// ID is what is known of one interface. Unknown parts are "" or 0.
type ID struct {
	Name   string `json:"name"`
	Index  int    `json:"index,omitempty"`  // within one run of the machine and one network namespace
	MAC    string `json:"mac,omitempty"`    // the permanent one; "" of a virtual interface
	Driver string `json:"driver,omitempty"` // "ixgbe", "veth"
	Bus    string `json:"bus,omitempty"`    // "0000:03:00.1"
}

// String is for people: "index 4, MAC 02:00:00:00:00:01, driver ixgbe".
func (i ID) String() string {
	text := fmt.Sprintf("index %d", i.Index)
	if i.MAC != "" {
		text += ", MAC " + i.MAC
	}
	if i.Driver != "" {
		text += ", driver " + i.Driver
	}
	if i.Bus != "" {
		text += ", bus " + i.Bus
	}
	return text
}

// Key is the same text for what Find holds for the same interface, within one run
// of the machine.
func (i ID) Key() string {
	if i.MAC != "" {
		return i.MAC + " " + i.Driver
	}
	return fmt.Sprintf("%d %s", i.Index, i.Driver)
}

// All returns the interfaces of this network namespace. Linux tells the permanent
// MAC and the driver; FreeBSD, macOS and Windows the index and the MAC in use.
func All() ([]ID, error) { return all() }

// Of returns the interface called name. It wraps fs.ErrNotExist where there is none.
func Of(name string) (ID, error) {
	links, err := All()
	if err != nil {
		return ID{}, err
	}
	for _, l := range links {
		if l.Name == name {
			return l, nil
		}
	}
	return ID{}, fmt.Errorf("interface %s: %w", name, fs.ErrNotExist)
}

// Owner returns the interface that has the address a; that of loopback has all of
// 127.0.0.0/8.
func Owner(a netip.Addr) (*net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	own := a.Unmap().WithZone("")
	for _, i := range all {
		if a.Zone() != "" && a.Zone() != i.Name {
			continue
		}
		addresses, _ := i.Addrs() // none of an interface that went away meanwhile
		for _, one := range addresses {
			p, err := netip.ParsePrefix(one.String())
			if err == nil && (p.Addr().Unmap() == own || p.Addr().IsLoopback() && own.IsLoopback()) {
				return &i, nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has the address %s", a)
}

// ErrGone says that an interface is not there any more.
var ErrGone = errors.New("that interface is gone")

// Find returns which of links is the one that was recorded as i: the one with its
// permanent MAC and driver, and where several have these, with its bus address or
// index. One without a permanent MAC is known by its index for as long as the
// machine runs (sameRun). The error wraps ErrGone.
func (i ID) Find(links []ID, sameRun bool) (ID, error) {
	var found []ID
	for _, l := range links {
		switch {
		case i.Driver != "" && l.Driver != "" && i.Driver != l.Driver:
		case i.MAC != "" && l.MAC == i.MAC, i.MAC == "" && l.MAC == "" && sameRun && l.Index == i.Index:
			found = append(found, l)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	for _, l := range found { // ports of one card may share a MAC
		if i.Bus != "" && l.Bus == i.Bus || sameRun && l.Index == i.Index {
			return l, nil
		}
	}
	return ID{}, fmt.Errorf("%s (%s): %w", i.Name, i, ErrGone)
}
