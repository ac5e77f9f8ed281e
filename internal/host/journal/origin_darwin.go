package journal

import "golang.org/x/sys/unix"

// here reads the ID that the kernel generates at boot. It does not use the boot time, which
// moves with the clock.
func here() Origin {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return Origin{}
	}
	return Origin{Boot: id}
}
