//go:build freebsd || darwin

package sysctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func openSystem(name string) (Key, error) {
	if name == "" || strings.ContainsAny(name, " \x00/") || strings.Contains(name, "..") {
		return nil, fmt.Errorf("sysctl %q: not a name", name)
	}
	return &node{name: name, kernel: system{}, choice: chosen}, nil
}

// chosen returns the driver's choice for a setting that leaves it to the driver.
func chosen(name, value string) string {
	log := func() string {
		b, err := unix.SysctlRaw("kern.msgbuf")
		if err != nil {
			return "" // hidden (security.bsd.unprivileged_read_msgbuf), or macOS
		}
		return string(b)
	}
	exists := func(name string) bool {
		_, err := system{}.lookup(name)
		return err == nil
	}
	return driverChoice(name, value, log, exists)
}

// maxValue bounds what is read, far above the size of any setting.
const maxValue = 64 << 10

// Queries about the tree itself: numbers below CTL_SYSCTL 0, as sysctl(8) uses them (FreeBSD
// sys/sys/sysctl.h CTL_SYSCTL_NAME2OID, CTL_SYSCTL_OIDFMT; xnu bsd/kern/kern_newsysctl.c has
// the same numbers).
const (
	askNumbers = 3
	askFormat  = 4
	maxNumbers = 24 // CTL_MAXNAME
)

// system is the running kernel.
type system struct{}

func (system) lookup(name string) ([]int32, error) {
	buffer := make([]byte, 4*(maxNumbers+2))
	n, err := call([]int32{0, askNumbers}, buffer, []byte(name))
	if errors.Is(err, unix.ENOENT) {
		return nil, missing(name)
	}
	if err != nil {
		return nil, classify(err)
	}
	oid := make([]int32, n/4)
	for i := range oid {
		oid[i] = int32(binary.NativeEndian.Uint32(buffer[4*i:]))
	}
	return oid, nil
}

func (system) describe(oid []int32) (uint32, string, error) {
	buffer := make([]byte, 1024)
	n, err := call(append([]int32{0, askFormat}, oid...), buffer, nil)
	if err != nil {
		return 0, "", classify(err)
	}
	if n < 4 {
		return 0, "", errors.New("the kernel does not report the kind of the setting")
	}
	format, _, _ := strings.Cut(string(buffer[4:n]), "\x00")
	return binary.NativeEndian.Uint32(buffer), format, nil
}

func (system) get(oid []int32) ([]byte, error) {
	buffer := make([]byte, maxValue)
	n, err := call(oid, buffer, nil)
	if err != nil {
		return nil, classify(err)
	}
	return buffer[:n], nil
}

func (system) set(oid []int32, value []byte) error {
	if _, err := call(oid, nil, value); err != nil {
		return classify(err)
	}
	return nil
}

// call is sysctl(3): it fills old and sets value unless they are empty. It returns the number
// of bytes in old.
func call(oid []int32, old, value []byte) (int, error) {
	size := uintptr(len(old))
	var oldAt, sizeAt, newAt unsafe.Pointer
	if len(old) > 0 {
		oldAt, sizeAt = unsafe.Pointer(&old[0]), unsafe.Pointer(&size)
	}
	if len(value) > 0 {
		newAt = unsafe.Pointer(&value[0])
	}
	_, _, errno := unix.Syscall6(unix.SYS___SYSCTL, uintptr(unsafe.Pointer(&oid[0])), uintptr(len(oid)),
		uintptr(oldAt), uintptr(sizeAt), uintptr(newAt), uintptr(len(value)))
	runtime.KeepAlive(oid)
	runtime.KeepAlive(old)
	runtime.KeepAlive(value)
	if errno != 0 {
		return 0, errno
	}
	return int(min(size, uintptr(len(old)))), nil
}

// classify converts an error of the system: it keeps the sentinels and the text, without the
// number. The kernel refuses a value with EINVAL, ERANGE or ENOBUFS.
func classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fs.ErrPermission
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%s: %w", err.Error(), errors.ErrUnsupported)
	}
	return errors.New(err.Error())
}
