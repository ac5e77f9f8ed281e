package journal

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// here reads proc_sys_kernel(5) random/boot_id and the ID of this thread's namespace,
// network_namespaces(7).
func here() Origin {
	var o Origin
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		o.Boot = strings.TrimSpace(string(b))
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err == nil {
		o.Netns = st.Ino
	}
	return o
}
