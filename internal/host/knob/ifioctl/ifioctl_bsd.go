//go:build freebsd || darwin

package ifioctl

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket queries the running kernel.
type socket struct{}

func (socket) do(request uint, b []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return classify(err)
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&b[0])))
	runtime.KeepAlive(b)
	if errno != 0 {
		return classify(errno)
	}
	return nil
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number. FreeBSD returns ENXIO both for a medium that the driver lacks and for a missing
// interface.
func classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY):
		return fmt.Errorf("the driver has no such setting: %w", errors.ErrUnsupported)
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the driver refuses: %s", err.Error())
	case errors.Is(err, unix.ENXIO):
		return fmt.Errorf("%s: %w", err.Error(), fs.ErrNotExist)
	}
	return errors.New(err.Error())
}

// system returns the access to this kernel: FreeBSD and macOS differ only in numbers.
func system() (abi, kernel, error) {
	if runtime.GOOS == "darwin" {
		return darwin(), socket{}, nil
	}
	return freebsd(), socket{}, nil
}
