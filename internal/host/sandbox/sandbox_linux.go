package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func drop(u User) error {
	// In this order: only root may choose its groups. The calls of package syscall apply to
	// all threads.
	if err := syscall.Setgroups([]int{u.GID}); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return fmt.Errorf("set group: %w", err)
	}
	if err := syscall.Setresuid(u.UID, u.UID, u.UID); err != nil {
		return fmt.Errorf("set user: %w", err)
	}
	if syscall.Setuid(0) == nil {
		return errors.New("the way back to root is open")
	}
	return nil
}

// mapped reports whether this user namespace has the user id. Lines of /proc/self/uid_map
// (user_namespaces(7)):
//
//	0          0 4294967295
func mapped(id int) bool {
	f, err := os.Open("/proc/self/uid_map")
	if err != nil {
		return true // this kernel has no such file
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		var first, outside, count int
		if n, err := fmt.Sscan(s.Text(), &first, &outside, &count); n == 3 && err == nil && id >= first && id-first < count {
			return true
		}
	}
	return false
}

// Confines reports that this system has no_new_privs and, in newer kernels, Landlock.
const Confines = true

// everywhere makes a system call in all threads.
func everywhere(call uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := syscall.AllThreadsSyscall6(call, a[0], a[1], a[2], a[3], a[4], a[5])
	switch errno {
	case 0:
		return nil
	case syscall.ENOSYS, syscall.EOPNOTSUPP: // EOPNOTSUPP: Landlock is not enabled, or the program was built with cgo
		return fmt.Errorf("%w: %w", errno, errors.ErrUnsupported)
	default:
		return errno
	}
}

func noNewPrivileges() error {
	if err := everywhere(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// File rights by the first version of Landlock's interface that knows them (Linux,
// include/uapi/linux/landlock.h).
var handled = []uint64{
	0,
	unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
	unix.LANDLOCK_ACCESS_FS_REFER,
	unix.LANDLOCK_ACCESS_FS_TRUNCATE,
	0, // networks
	unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
}

// The rights in Files: for a file, and for a folder.
const (
	readFile    = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readFolder  = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile   = readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	writeFolder = writeFile | readFolder | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_REFER
)

func confine(f Files) (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 { // also returned by filters of system calls
		return 0, fmt.Errorf("no Landlock here: %w: %w", errno, errors.ErrUnsupported)
	}
	var all uint64
	for i, rights := range handled {
		if i <= int(abi) {
			all |= rights
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	// The size of the first version, which later kernels accept (landlock_create_ruleset(2)).
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return 0, fmt.Errorf("make Landlock rules: %w", errno)
	}
	rules := int(fd)
	defer func() { _ = unix.Close(rules) }()
	for _, path := range f.Read {
		if err := allow(rules, path, readFile&all, readFolder&all); err != nil {
			return 0, err
		}
	}
	for _, path := range f.Write {
		if err := allow(rules, path, writeFile&all, writeFolder&all); err != nil {
			return 0, err
		}
	}
	if err := everywhere(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0); err != nil {
		return 0, fmt.Errorf("enforce Landlock: %w", err)
	}
	return int(abi), nil
}

// allow adds a rule for the file or folder that path is now.
func allow(rules int, path string, ofFile, ofFolder uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // a missing path is not needed
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("allow %s: %w", path, err)
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: ofFile, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		attr.Allowed_access = ofFolder
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow %s: %w", path, errno)
	}
	return nil
}
