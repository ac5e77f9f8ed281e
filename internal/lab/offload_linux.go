package lab

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// featureBlocks is room for 32 features each; Linux 6.18 has about 64.
const featureBlocks = 4

// stringBytes is ETH_GSTRING_LEN of include/uapi/linux/ethtool.h.
const stringBytes = 32

// ethSSFeatures is ETH_SS_FEATURES of enum ethtool_stringset, same file.
const ethSSFeatures = 4

// gstrings is struct ethtool_gstrings with its data.
type gstrings struct {
	cmd, set, count uint32
	data            [featureBlocks * 32 * stringBytes]byte
}

// ssetInfo is struct ethtool_sset_info with room for one answer.
type ssetInfo struct {
	cmd, reserved uint32
	mask          uint64
	count         uint32
	_             uint32
}

// sfeatures is struct ethtool_sfeatures with its blocks.
type sfeatures struct {
	cmd, size uint32
	blocks    [featureBlocks]struct{ valid, requested uint32 }
}

// offloadsOff makes an interface send frames as on a wire: at most MTU sized and with checksums
// filled in. Software segmentation (GSO) stays on, since it happens before the frames reach the
// device.
func offloadsOff(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open control socket: %w", err)
	}
	err = switchOff(fd, name)
	return errors.Join(err, unix.Close(fd))
}

func switchOff(fd int, name string) error {
	// The count must be exact: newer kernels return no names for another one.
	info := &ssetInfo{cmd: unix.ETHTOOL_GSSET_INFO, mask: 1 << ethSSFeatures}
	if err := ethtool(fd, name, unsafe.Pointer(info)); err != nil {
		return fmt.Errorf("count offloads of %s: %w", name, err)
	}
	if info.mask == 0 || info.count > featureBlocks*32 {
		return fmt.Errorf("count offloads of %s: kernel says %d: %w", name, info.count, errors.ErrUnsupported)
	}
	count := info.count
	names := &gstrings{cmd: unix.ETHTOOL_GSTRINGS, set: ethSSFeatures, count: count}
	if err := ethtool(fd, name, unsafe.Pointer(names)); err != nil {
		return fmt.Errorf("list offloads of %s: %w", name, err)
	}
	req := &sfeatures{cmd: unix.ETHTOOL_SFEATURES, size: (count + 31) / 32}
	for i := range count {
		text, _, _ := bytes.Cut(names.data[i*stringBytes:(i+1)*stringBytes], []byte{0})
		if isOffload(string(text)) {
			req.blocks[i/32].valid |= 1 << (i % 32)
		}
	}
	if err := ethtool(fd, name, unsafe.Pointer(req)); err != nil {
		return fmt.Errorf("switch off offloads of %s: %w", name, err)
	}
	return nil
}

// isOffload reports whether a feature leaves segmentation or checksums to the device. The names
// are those of net/ethtool/common.c, Linux 6.18. The kernel ignores features that the device
// does not have.
func isOffload(feature string) bool {
	if feature == "tx-generic-segmentation" {
		return false
	}
	return feature == "tx-gso-list" || strings.HasPrefix(feature, "tx-checksum-") ||
		strings.HasPrefix(feature, "tx-") && strings.HasSuffix(feature, "-segmentation")
}

// ethtool calls the ioctl SIOCETHTOOL with a pointer to a command.
func ethtool(fd int, name string, command unsafe.Pointer) error {
	var req struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	req.data = command
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}
