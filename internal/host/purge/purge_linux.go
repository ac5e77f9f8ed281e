package purge

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The generic netlink family, include/uapi/linux/tcp_metrics.h. A delete request without an
// address empties the cache of the namespace (tcp_metrics_nl_cmd_del,
// net/ipv4/tcp_metrics.c).
const (
	family        = "tcp_metrics" // TCP_METRICS_GENL_NAME
	familyVersion = 1             // TCP_METRICS_GENL_VERSION
	cmdGet        = 1             // TCP_METRICS_CMD_GET
	cmdDel        = 2             // TCP_METRICS_CMD_DEL
)

func tcpMetrics() error {
	f, err := netlink.GenlFamilyGet(family)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("purge what TCP remembers: this Linux kernel has no tcp_metrics: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("purge what TCP remembers: find family %s: %w", family, err)
	}
	_, err = ask(f.ID, cmdDel, unix.NLM_F_ACK)
	if errors.Is(err, fs.ErrPermission) {
		// All users may read it, and an empty cache needs no emptying.
		if n, lookErr := remembered(f.ID); lookErr == nil && n == 0 {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("purge what TCP remembers: %w", err)
	}
	return nil
}

// remembered returns how many destinations the cache of the namespace holds.
func remembered(id uint16) (int, error) {
	entries, err := ask(id, cmdGet, unix.NLM_F_DUMP)
	return len(entries), err
}

func ask(id uint16, cmd uint8, flags int) ([][]byte, error) {
	r := nl.NewNetlinkRequest(int(id), flags)
	r.AddData(&nl.Genlmsg{Command: cmd, Version: familyVersion})
	return r.Execute(unix.NETLINK_GENERIC, 0)
}
