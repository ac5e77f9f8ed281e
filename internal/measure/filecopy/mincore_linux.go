package filecopy

import (
	"syscall"
	"unsafe"
)

// mincore sets in pages which pages of view are in memory, mincore(2).
func mincore(view, pages []byte) error {
	_, _, errno := syscall.Syscall(syscall.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(view))),
		uintptr(len(view)), uintptr(unsafe.Pointer(unsafe.SliceData(pages))))
	if errno != 0 {
		return errno
	}
	return nil
}
