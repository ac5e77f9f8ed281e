package linkid

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// all asks rtnetlink for IFLA_PERM_ADDRESS (since Linux 5.6), and each driver for
// its name by ETHTOOL_GDRVINFO (include/uapi/linux/ethtool.h).
func all() ([]ID, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %s", err.Error())
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %s", err.Error())
	}
	defer unix.Close(fd)
	ids := make([]ID, 0, len(links))
	for _, l := range links {
		at := l.Attrs()
		id := ID{Name: at.Name, Index: at.Index}
		if len(at.PermHWAddr) == 6 {
			id.MAC = at.PermHWAddr.String()
		}
		// Not every driver has one to tell: its kind is known without it.
		if info, err := unix.IoctlGetEthtoolDrvinfo(fd, at.Name); err == nil {
			id.Driver, id.Bus = unix.ByteSliceToString(info.Driver[:]), unix.ByteSliceToString(info.Bus_info[:])
		}
		if id.Bus == "N/A" { // drivers of virtual interfaces say so
			id.Bus = ""
		}
		ids = append(ids, id)
	}
	return ids, nil
}
