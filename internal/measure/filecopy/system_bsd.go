//go:build freebsd || darwin

package filecopy

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// remoteTypes lists the file systems on other machines.
func remoteTypes() []string {
	return []string{"nfs", "oldnfs", "smbfs", "afpfs", "webdav", "fusefs.sshfs", "macfuse"}
}

func readVolume(path string) (Volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Volume{}, err
	}
	v := Volume{
		Type: unix.ByteSliceToString(s.Fstypename[:]), Source: unix.ByteSliceToString(s.Mntfromname[:]),
		Free: units.Bytes(int64(max(0, int64(s.Bavail))) * int64(s.Bsize)),
	}
	v.Memory = v.Type == "tmpfs"
	v.Remote = slices.Contains(remoteTypes(), v.Type)
	return v, nil
}

func identify(f *os.File) (identity, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return identity{}, fmt.Errorf("identify %s: %w", f.Name(), err)
	}
	return identity{Device: uint64(s.Dev), Inode: s.Ino, Birth: s.Btim.Nano()}, nil
}

// availableMemory is unknown: neither system has one figure for it.
func availableMemory() fact.Of[units.Bytes] {
	return fact.Unknown[units.Bytes]("this system has no figure for the memory that programs may still take")
}
