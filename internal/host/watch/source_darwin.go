package watch

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// source reads by sysctl(3). The time of cores is shown by Mach only
// (host_processor_info), which cannot be asked without linking C.
type source struct {
	gaps
	device  string
	index   int // 0 for no interface
	message routeMessage
}

func openSource(iface string) (*source, error) {
	s := &source{device: iface, message: darwinInterface()}
	s.note("cores", fmt.Errorf("macOS shows their time to C libraries only: %w", errors.ErrUnsupported))
	if iface != "" {
		i, err := net.InterfaceByName(iface)
		if err == nil {
			s.index = i.Index
		}
		s.note("interface "+iface, err)
	}
	return s, nil
}

func (s *source) missing() []string { return s.texts() }

func (s *source) close() error { return nil }

func (s *source) read(o *Snapshot, _ bool) error {
	some := false
	try := func(name string, decode func([]byte, *values) error) {
		b, err := unix.SysctlRaw(name)
		if err == nil {
			err = decode(b, &o.values)
		}
		s.note(name, err)
		some = some || err == nil
	}
	try("net.inet.udp.stats", decodeDarwinUDP)
	try("net.inet.tcp.stats", decodeDarwinTCP)
	if s.index > 0 {
		b, err := syscall.RouteRIB(syscall.NET_RT_IFLIST2, s.index)
		if err == nil {
			err = s.message.decode(b, s.index, &o.values)
		}
		s.note("interface "+s.device, err)
		some = some || err == nil
	}
	if !some {
		return fmt.Errorf("nothing can be read: %q", s.texts())
	}
	return nil
}
