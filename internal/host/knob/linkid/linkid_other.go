//go:build !linux

package linkid

import (
	"fmt"
	"net"
	"slices"
)

// all returns what these systems report without special rights: a virtual interface may have
// a constant MAC of its own there.
func all() ([]ID, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	ids := make([]ID, 0, len(links))
	for _, l := range links {
		id := ID{Name: l.Name, Index: l.Index}
		if len(l.HardwareAddr) == 6 && slices.ContainsFunc(l.HardwareAddr, func(b byte) bool { return b != 0 }) {
			id.MAC = l.HardwareAddr.String()
		}
		ids = append(ids, id)
	}
	return ids, nil
}
