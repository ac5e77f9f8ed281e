package facts

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
)

// readMII reads the registers of an interface's transceiver. Linux allows that to root only
// (net/core/dev_ioctl.c, CAP_NET_ADMIN).
func readMII(device string) (model.Media, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return model.Media{}, fmt.Errorf("open a socket: %s", err.Error())
	}
	defer unix.Close(fd)
	var request struct { // struct ifreq with struct mii_ioctl_data
		name                  [unix.IFNAMSIZ]byte
		phy, register, in, is uint16
		_                     [16]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	do := func(number uintptr) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), number, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return errors.New(errno.Error())
		}
		return nil
	}
	if err := do(unix.SIOCGMIIPHY); err != nil { // fills in the transceiver's number
		return model.Media{}, err
	}
	var all [miiCount]uint16
	// The status register latches a lost link until it is read: only the second reading is
	// current.
	for _, register := range []uint16{miiStatus, miiControl, miiStatus, miiOffered, miiPartner, miiControlG, miiStatusG} {
		request.register = register
		if err := do(unix.SIOCGMIIREG); err != nil {
			return model.Media{}, err
		}
		all[register] = request.is
	}
	return decodeMII(all)
}
