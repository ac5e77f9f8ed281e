package filecopy

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// directFlag bypasses the system cache (CreateFile, File Buffering).
const directFlag = windows.O_FILE_FLAG_NO_BUFFERING

func memoryFolders() []string { return nil }

const noMemoryDisk = "windows has no file system in memory of its own"

func temporaryFolders() []string { return nil }

func readVolume(path string) (Volume, error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Volume{}, err
	}
	var root [windows.MAX_PATH + 1]uint16
	if err := windows.GetVolumePathName(p, &root[0], uint32(len(root))); err != nil {
		return Volume{}, err
	}
	var (
		free uint64
		kind [windows.MAX_PATH + 1]uint16
	)
	if err := windows.GetDiskFreeSpaceEx(p, &free, nil, nil); err != nil {
		return Volume{}, err
	}
	v := Volume{Source: windows.UTF16ToString(root[:]), Free: units.Bytes(free)}
	if err := windows.GetVolumeInformation(&root[0], nil, 0, nil, nil, nil, &kind[0], uint32(len(kind))); err == nil {
		v.Type = windows.UTF16ToString(kind[:])
	}
	switch windows.GetDriveType(&root[0]) {
	case windows.DRIVE_REMOTE:
		v.Remote = true
	case windows.DRIVE_RAMDISK:
		v.Memory = true
	}
	return v, nil
}

func identify(f *os.File) (identity, error) {
	var d windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &d); err != nil {
		return identity{}, fmt.Errorf("identify %s: %w", f.Name(), err)
	}
	return identity{
		Device: uint64(d.VolumeSerialNumber), Inode: uint64(d.FileIndexHigh)<<32 | uint64(d.FileIndexLow),
		Birth: d.CreationTime.Nanoseconds(),
	}, nil
}

// dropCache is unsupported: Windows cannot drop a file's pages on request.
func dropCache(f *os.File) (cached, error) {
	return cached{}, fmt.Errorf("empty page cache of %s: windows has no call for it: %w", f.Name(), errors.ErrUnsupported)
}

// past does nothing: directFlag suffices.
func past(*os.File) error { return nil }

func availableMemory() fact.Of[units.Bytes] {
	return fact.Unknown[units.Bytes]("not asked of windows")
}

// allocate returns n bytes of page-aligned anonymous memory, and the function that frees them.
func allocate(n int64) ([]byte, func() error, error) {
	address, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	// The address is outside Go's heap: only the function below frees it.
	start := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	return unsafe.Slice((*byte)(start), n), func() error {
		return windows.VirtualFree(address, 0, windows.MEM_RELEASE)
	}, nil
}

// lock locks f for this process. It returns false if another process, or another open of f,
// holds the lock; if wait is true it waits instead.
func lock(f *os.File, wait bool) (bool, error) {
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	// A range far beyond the end: such a lock stops no reader.
	at := windows.Overlapped{OffsetHigh: 1 << 20}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// syncFolder does nothing: NTFS journals names by itself.
func syncFolder(string) error { return nil }

// writable returns nil: creating the file shows whether it is.
func writable(string) error { return nil }
