package journal

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/sys/unix"

	"linerate/internal/host/kenv"
)

// startName is where the start of a kernel without a boot id is written down.
const startName = "linerate.start"

// here reads kern.boot_id, 16 random bytes that the kernel made up (FreeBSD
// sys/kern/kern_mib.c, sysctl_bootid). FreeBSD 12 has none, nor has a kernel whose
// randomness is not seeded yet; and the time of the start moves with the clock. There that
// time, as it was when this was first asked, is put into the kernel's environment, where
// it stays until the next start. That takes root; in a jail, and for others before root,
// the start is unknown. Who began with that name stays with it, whatever comes later.
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
	id := fmt.Sprintf("%d.%06d", at.Sec, at.Usec) // two that ask at once write the same
	if kenv.Set(startName, id) != nil {
		return Origin{}
	}
	return Origin{Boot: id}
}
