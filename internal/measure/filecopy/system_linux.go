package filecopy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"linerate/internal/core/fact"
	"linerate/internal/core/units"
)

// directFlag bypasses the page cache, open(2).
const directFlag = unix.O_DIRECT

// memoryFolders returns the usual mount points of a file system in memory (file-hierarchy(7)).
func memoryFolders() []string {
	return []string{"/dev/shm", os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp", "/run"}
}

const noMemoryDisk = "none of /dev/shm, /run and the folder for temporary files is a tmpfs with enough room"

// remoteTypes maps the statfs numbers of file systems on other machines to names
// (include/uapi/linux/magic.h, statfs(2)).
func remoteTypes() map[uint32]string {
	return map[uint32]string{
		unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs",
		unix.SMB2_SUPER_MAGIC: "smb3", unix.AFS_SUPER_MAGIC: "afs", unix.CODA_SUPER_MAGIC: "coda",
		unix.NCP_SUPER_MAGIC: "ncp", unix.V9FS_MAGIC: "9p", unix.CEPH_SUPER_MAGIC: "ceph",
	}
}

func readVolume(path string) (Volume, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Volume{}, err
	}
	number := uint32(s.Type)
	v := Volume{Free: units.Bytes(s.Bavail * uint64(s.Bsize))}
	v.Memory = number == unix.TMPFS_MAGIC || number == unix.RAMFS_MAGIC
	v.Type, v.Remote = remoteTypes()[number]
	if m, ok := mountAt(path); ok {
		v.Type, v.Source = m.kind, m.source
		// The type of a FUSE file system follows the dot. Its source shows whether it is
		// remote: sshfs, davfs, s3fs, glusterfs write host:path.
		v.Remote = v.Remote || strings.HasPrefix(m.kind, "fuse.") && strings.Contains(m.source, ":")
	}
	if v.Type == "" && v.Memory {
		v.Type = "tmpfs"
	}
	return v, nil
}

// mountAt returns the mount of path. Without it only the name of the file system is missing.
func mountAt(path string) (mount, bool) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return mount{}, false
	}
	if whole, err = filepath.EvalSymlinks(whole); err != nil {
		return mount{}, false
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return mount{}, false
	}
	return mountOf(parseMounts(string(text)), whole)
}

func identify(f *os.File) (identity, error) {
	var s unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &s)
	if err != nil {
		return identity{}, fmt.Errorf("identify %s: %w", f.Name(), err)
	}
	id := identity{Device: unix.Mkdev(s.Dev_major, s.Dev_minor), Inode: s.Ino}
	if s.Mask&unix.STATX_BTIME != 0 {
		id.Birth = s.Btime.Sec*1e9 + int64(s.Btime.Nsec)
	}
	return id, nil
}

// dropCache asks the kernel to drop the clean pages of f, and returns the share that remains.
func dropCache(f *os.File) (cached, error) {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return cached{}, fmt.Errorf("empty page cache of %s: %w", f.Name(), err)
	}
	return resident(f), nil
}

// resident returns the share of f in the page cache. mincore(2) reports it to the owner of the
// file and to users who may write it.
func resident(f *os.File) cached {
	info, err := f.Stat()
	if err != nil {
		return fact.Unknown[float64](err.Error())
	}
	if info.Size() == 0 {
		return fact.Known(0.0, "mincore")
	}
	view, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fact.Unknown[float64]("map the file: " + err.Error())
	}
	pages := make([]byte, (len(view)+os.Getpagesize()-1)/os.Getpagesize())
	err = mincore(view, pages)
	if err = errors.Join(err, unix.Munmap(view)); err != nil {
		return fact.Unknown[float64]("mincore: " + err.Error())
	}
	n := 0
	for _, p := range pages {
		n += int(p & 1)
	}
	return fact.Known(float64(n)/float64(len(pages)), "mincore")
}

// sendfile moves up to n bytes of f from offset to c without copying them through user space,
// sendfile(2).
func sendfile(c *net.TCPConn, f *os.File, offset, n int64) (int64, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var (
		sent   int
		failed error
		from   = int(f.Fd())
	)
	err = raw.Write(func(to uintptr) bool {
		for {
			at := offset
			sent, failed = unix.Sendfile(int(to), from, &at, int(n))
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	if errors.Is(failed, unix.EINVAL) || errors.Is(failed, unix.ENOSYS) {
		return 0, fmt.Errorf("sendfile from %s: %w", f.Name(), errors.ErrUnsupported)
	}
	if failed != nil {
		return 0, os.NewSyscallError("sendfile", failed)
	}
	return int64(sent), nil
}

// availableMemory returns the memory that programs may still use: MemAvailable of
// proc_meminfo(5), or less if a control group allows less (cgroups(7)).
func availableMemory() fact.Of[units.Bytes] {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fact.Unknown[units.Bytes](err.Error())
	}
	least, known := parseMeminfo(string(text))
	if !known {
		return fact.Unknown[units.Bytes]("/proc/meminfo has no MemAvailable")
	}
	source := "/proc/meminfo"
	limit, limited := readNumber("/sys/fs/cgroup/memory.max")
	used, _ := readNumber("/sys/fs/cgroup/memory.current")
	if limited && limit-used < int64(least) {
		least, source = units.Bytes(max(0, limit-used)), "/sys/fs/cgroup/memory.max"
	}
	return fact.Known(least, source)
}

// parseMeminfo parses the line
//
//	MemAvailable:   23674948 kB
func parseMeminfo(text string) (units.Bytes, bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "MemAvailable:" && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 53)
			return units.Bytes(n) << 10, err == nil && n >= 0
		}
	}
	return 0, false
}

func readNumber(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// populate creates the pages of b, madvise(2): MADV_POPULATE_WRITE of Linux 5.14. Older kernels
// create them when they are written.
func populate(b []byte) {
	if len(b) > 0 {
		_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	}
}

// past does nothing: directFlag suffices.
func past(*os.File) error { return nil }
