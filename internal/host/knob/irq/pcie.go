package irq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// Offsets and bits of a device's configuration space: PCI Local Bus
// Specification 3.0 sections 6.1, 6.2.3 and 6.7; PCI Express Base Specification
// 3.0 section 7.8.4.
const (
	seenByAll      = 0x40 // bytes that ordinary users may read
	statusAt       = 6
	hasList        = 1 << 4
	listAt         = 0x34
	capabilityPCIe = 0x10
	controlAt      = 8 // device control, of the capability
	mostLinks      = 48
)

// maxReadRequest returns the number of bytes that a device requests from memory at a time,
// from its configuration space: bits 14 to 12 of device control, 128 bytes times a power of
// two up to 5. It wraps fs.ErrPermission if only the first bytes may be read, and
// errors.ErrUnsupported if the device is not PCI Express.
func maxReadRequest(config []byte) (string, error) {
	if len(config) < seenByAll {
		return "", fmt.Errorf("%d bytes are no configuration space: %w", len(config), errors.ErrUnsupported)
	}
	none := fmt.Errorf("the device is on no PCI Express: %w", errors.ErrUnsupported)
	if config[statusAt]&hasList == 0 {
		return "", none
	}
	at := int(config[listAt] &^ 3)
	for range mostLinks { // also ends a circular list
		switch {
		case at < seenByAll:
			return "", none
		case at+controlAt+2 > len(config):
			if len(config) == seenByAll {
				return "", fmt.Errorf("read what follows the first %d bytes of the device's registers: %w", seenByAll, fs.ErrPermission)
			}
			return "", none
		case config[at] == capabilityPCIe:
			code := binary.LittleEndian.Uint16(config[at+controlAt:]) >> 12 & 7
			if code > 5 {
				return "", fmt.Errorf("the device has a reserved size of read requests, %d: %w", code, errors.ErrUnsupported)
			}
			return strconv.Itoa(128 << code), nil
		}
		at = int(config[at+1] &^ 3)
	}
	return "", none
}
