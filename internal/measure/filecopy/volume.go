package filecopy

import (
	"cmp"
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// Volume is the file system of a path.
type Volume struct {
	Type   string      `json:"type"`             // "ext4", "tmpfs", "nfs4", "NTFS"; "" is unknown
	Source string      `json:"source,omitempty"` // the mounted source: a device, "server:/share"
	Memory bool        `json:"memory,omitempty"` // it keeps files in memory
	Remote bool        `json:"remote,omitempty"` // it keeps files on another machine
	Free   units.Bytes `json:"free"`             // for this user
}

// String describes the volume, for example "nfs4 from nas:/export".
func (v Volume) String() string {
	name := cmp.Or(v.Type, "an unknown file system")
	if v.Remote && v.Source != "" {
		return name + " from " + v.Source
	}
	return name
}

// ReadVolume returns the file system of path, which must exist. The error wraps
// errors.ErrUnsupported if the system does not report it.
func ReadVolume(path string) (Volume, error) {
	v, err := readVolume(path)
	if err != nil {
		return Volume{}, fmt.Errorf("read file system of %s: %w", path, err)
	}
	return v, nil
}

// identity distinguishes a file from any other, even one with the same name.
type identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Birth  int64  `json:"birth"` // creation time, ns since 1970; 0 is unknown
}

// same reports whether both are the same file. Device numbers change at a reboot, and count
// only if a birth time is unknown. An inode number is reused after its file is removed, a birth
// time is not.
func (i identity) same(o identity) bool {
	if i.Birth != 0 && o.Birth != 0 {
		return i.Inode == o.Inode && i.Birth == o.Birth
	}
	return i.Inode == o.Inode && i.Device == o.Device
}

// cached is the share of a file in this machine's page cache, 0 to 1.
type cached = fact.Of[float64]
