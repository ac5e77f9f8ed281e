//go:build darwin || freebsd

package journal

import "golang.org/x/sys/unix"

// here reads what the kernel made up when it started: kern.bootsessionuuid of macOS, and
// kern.boot_id of FreeBSD, which 12 does not have. The time of the start is not taken: it
// moves with the clock.
func here() Origin {
	for _, name := range []string{"kern.bootsessionuuid", "kern.boot_id"} {
		if id, err := unix.Sysctl(name); err == nil {
			return Origin{Boot: id}
		}
	}
	return Origin{}
}
