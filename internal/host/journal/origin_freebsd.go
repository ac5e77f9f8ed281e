package journal

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/sys/unix"

	"linerate/internal/host/kenv"
)

// startName is the kernel variable with the boot time of a kernel without a boot id.
const startName = "linerate.start"

// here reads kern.boot_id, 16 random bytes that the kernel generates (FreeBSD
// sys/kern/kern_mib.c, sysctl_bootid). FreeBSD 12 has none, nor has a kernel whose randomness
// is not seeded yet, and the boot time moves with the clock. In that case the boot time as
// first read is stored in the kernel's environment, where it stays until the next boot. That
// takes root; in a jail, or without root before it was stored, the boot is unknown. Once
// stored, that time is used even if an ID appears later.
func here() Origin {
	if id, err := kenv.Get(startName); err == nil {
		return Origin{Boot: id}
	}
	if id, err := unix.SysctlRaw("kern.boot_id"); err == nil && len(id) > 0 {
		return Origin{Boot: hex.EncodeToString(id)}
	}
	at, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return Origin{}
	}
	id := fmt.Sprintf("%d.%06d", at.Sec, at.Usec) // concurrent calls write the same
	if kenv.Set(startName, id) != nil {
		return Origin{}
	}
	return Origin{Boot: id}
}
