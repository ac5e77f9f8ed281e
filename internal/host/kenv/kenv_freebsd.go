package kenv

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Actions and the maximum size of a value with its final zero, FreeBSD sys/sys/kenv.h.
const (
	get     = 0
	set     = 1
	longest = 129
)

// Get returns the value of a variable.
func Get(name string) (string, error) {
	value := make([]byte, longest)
	if err := call(get, name, value); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(value), nil
}

// Set sets a variable to a value of at most 127 bytes, which takes root outside a jail.
func Set(name, value string) error {
	if len(value) > longest-2 {
		return fmt.Errorf("kenv %q: %d bytes are too many", name, len(value))
	}
	return call(set, name, append([]byte(value), 0))
}

func call(action uintptr, name string, value []byte) error {
	key, err := unix.BytePtrFromString(name)
	if err != nil {
		return fmt.Errorf("kenv %q: %w", name, err)
	}
	_, _, errno := unix.Syscall6(unix.SYS_KENV, action, uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(&value[0])), uintptr(len(value)), 0, 0)
	runtime.KeepAlive(key)
	if errno != 0 {
		return errors.New(errno.Error())
	}
	return nil
}
