package counters

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// Sizes of ethtool (Linux include/uapi/linux/ethtool.h).
const (
	ethName      = 32      // ETH_GSTRING_LEN
	ethStatsHead = 8       // struct ethtool_stats: cmd, n_stats; struct ethtool_gstrings has one word more
	mostStats    = 1 << 14 // no driver has more
)

// telling returns the parts of a driver's counter names that mean loss, errors or pauses.
// Drivers choose the names freely.
func telling() []string {
	return []string{
		"miss", "drop", "err", "discard", "pause", "xoff", "xon", "no_buf", "nobuf", "no_buff", "fifo", "no_dma", "no_desc", "oversize",
		"collision", "timeout", "overrun", "underrun", "underflow", "out_of_buffer", "out_of_range", "buffer_full", "full", "jabber", "crc", "restart", "reset", "alloc", "fail",
	}
}

// pick returns the indexes of those of n names in b that are worth watching, and the names:
// signs of trouble, and what single queues sent.
func pick(b []byte, n int) (indexes []int, names []string) {
	words := telling()
	for i := range min(n, len(b)/ethName) {
		name, _, _ := bytes.Cut(b[i*ethName:(i+1)*ethName], []byte{0})
		low := strings.ToLower(string(name))
		if _, ok := txQueue(strings.TrimSpace(low)); ok {
			indexes, names = append(indexes, i), append(names, strings.TrimSpace(low))
			continue
		}
		for _, w := range words {
			if strings.Contains(low, w) {
				indexes, names = append(indexes, i), append(names, strings.TrimSpace(string(name)))
				break
			}
		}
	}
	return indexes, names
}

// decodeDriver returns the values at indexes of struct ethtool_stats, which must hold want
// values: a driver that has made queues meanwhile has others.
func decodeDriver(b []byte, want int, indexes []int) ([]uint64, error) {
	if len(b) < ethStatsHead || int64(binary.NativeEndian.Uint32(b[4:])) != int64(want) || len(b) < ethStatsHead+8*want {
		return nil, fmt.Errorf("ethtool: the counters are not those asked for: %w", errShape)
	}
	out := make([]uint64, len(indexes))
	for k, i := range indexes {
		if i < 0 || i >= want {
			return nil, fmt.Errorf("ethtool: counter %d of %d: %w", i, want, errShape)
		}
		out[k] = binary.NativeEndian.Uint64(b[ethStatsHead+8*i:])
	}
	return out, nil
}
