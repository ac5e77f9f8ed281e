package watch

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// source reads by sysctl(3). With VNET, network counters are those of the
// jail's own stack.
type source struct {
	gaps
	tick    time.Duration // of kern.cp_times, 0 when unknown
	device  string
	index   int // 0 for no interface
	message routeMessage
}

func openSource(iface string) (*source, error) {
	s := &source{device: iface, message: freebsdInterface()}
	b, err := unix.SysctlRaw("kern.clockrate")
	if err == nil {
		s.tick, err = decodeClockRate(b)
	}
	s.note("cores", err)
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
	if s.tick > 0 {
		try("kern.cp_times", func(b []byte, _ *values) (err error) {
			o.cores, err = decodeFreeBSDCores(b, s.tick)
			o.parts = coreParts{user: true, system: true, irq: true}
			return err
		})
	}
	try("net.inet.udp.stats", decodeFreeBSDUDP)
	try("net.inet.tcp.stats", decodeFreeBSDTCP)
	try("net.inet.ip.stats", decodeFreeBSDIP)
	if s.index > 0 {
		b, err := syscall.RouteRIB(syscall.NET_RT_IFLIST, s.index)
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
