package journal

import "golang.org/x/sys/unix"

// here reads what the kernel made up when it started. The time of the start is not
// taken: it moves with the clock.
func here() Origin {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return Origin{}
	}
	return Origin{Boot: id}
}
