// Package linkid identifies network interfaces by more than their names, which may move to
// other interfaces.
package linkid

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
)

// ID identifies one interface. Unknown parts are "" or 0.
type ID struct {
	Name   string `json:"name"`
	Index  int    `json:"index,omitempty"`  // within one boot and one network namespace
	MAC    string `json:"mac,omitempty"`    // the permanent one; "" for a virtual interface
	Driver string `json:"driver,omitempty"` // "ixgbe", "veth"
	Bus    string `json:"bus,omitempty"`    // "0000:03:00.1"
}

// String returns a text for display: "index 4, MAC 02:00:00:00:00:01, driver ixgbe".
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

// Key returns the same text for IDs that Find treats as the same interface, within one boot.
func (i ID) Key() string {
	if i.MAC != "" {
		return i.MAC + " " + i.Driver
	}
	return fmt.Sprintf("%d %s", i.Index, i.Driver)
}

// All returns the interfaces of this network namespace: on Linux with the permanent MAC and
// the driver, on FreeBSD, macOS and Windows with the index and the MAC in use.
func All() ([]ID, error) { return all() }

// Of returns the interface called name. It wraps fs.ErrNotExist if there is none.
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

// Owner returns the interface that has the address a; loopback has all of 127.0.0.0/8.
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
		addresses, _ := i.Addrs() // none if the interface went away meanwhile
		for _, one := range addresses {
			p, err := netip.ParsePrefix(one.String())
			if err == nil && (p.Addr().Unmap() == own || p.Addr().IsLoopback() && own.IsLoopback()) {
				return &i, nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has the address %s", a)
}

// ErrGone reports that an interface no longer exists.
var ErrGone = errors.New("that interface is gone")

// Find returns the interface in links that was recorded as i: the one with its permanent MAC
// and driver, and if several have these, with its bus address or index. One without a
// permanent MAC is identified by its index within the same boot (sameRun). The error wraps
// ErrGone.
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
