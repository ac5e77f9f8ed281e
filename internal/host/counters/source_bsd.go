//go:build darwin || freebsd

package counters

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysctls reads the counters of sysctl(3) and the routing socket.
type sysctls struct {
	gaps
	device  string
	index   int // 0 for no interface
	message routeMessage
	some    bool // something could be read
}

// find looks the interface up.
func (s *sysctls) find() {
	if s.device == "" {
		return
	}
	i, err := net.InterfaceByName(s.device)
	if err == nil {
		s.index = i.Index
	}
	s.note("interface "+s.device, err)
}

func (s *sysctls) missing() []string { return s.texts() }

func (*sysctls) close() error { return nil }

// try decodes one variable into o.
func (s *sysctls) try(name string, o *Snapshot, decode func([]byte, *values) error) {
	b, err := unix.SysctlRaw(name)
	if err == nil {
		err = decode(b, &o.values)
	}
	s.note(name, err)
	s.some = s.some || err == nil
}

// finish reads the counters of the interface from the call list of the routing socket, and
// returns an error if nothing at all could be read.
func (s *sysctls) finish(list int, o *Snapshot) error {
	if s.index > 0 {
		b, err := syscall.RouteRIB(list, s.index)
		if err == nil {
			err = s.message.decode(b, s.index, &o.values)
		}
		s.note("interface "+s.device, err)
		s.some = s.some || err == nil
	}
	if !s.some {
		return fmt.Errorf("nothing can be read: %q", s.texts())
	}
	return nil
}
