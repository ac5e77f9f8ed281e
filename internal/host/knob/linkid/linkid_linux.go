package linkid

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"linerate/internal/host/knob/ethtool"
)

// all reads IFLA_PERM_ADDRESS (since Linux 5.6) from rtnetlink, and the name of each driver
// with ETHTOOL_GDRVINFO (include/uapi/linux/ethtool.h).
func all() ([]ID, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %s", err.Error())
	}
	drivers, err := ethtool.OpenSocket()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	defer drivers.Close() // nothing was written
	ids := make([]ID, 0, len(links))
	for _, l := range links {
		at := l.Attrs()
		id := ID{Name: at.Name, Index: at.Index}
		if len(at.PermHWAddr) == 6 {
			id.MAC = at.PermHWAddr.String()
		}
		// Not every interface has a driver to report.
		if info, err := drivers.Info(at.Name); err == nil {
			id.Driver, id.Bus = info.Driver, info.Bus
		}
		if id.Bus == "N/A" { // reported by drivers of virtual interfaces
			id.Bus = ""
		}
		ids = append(ids, id)
	}
	return ids, nil
}
