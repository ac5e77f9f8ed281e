package counters

import (
	"errors"
	"fmt"
	"syscall"
)

// source reads by sysctl(3). Only Mach shows the time of cores (host_processor_info), which
// needs linking with C.
type source struct{ sysctls }

func openSource(iface string) (*source, error) {
	s := &source{sysctls{device: iface, message: darwinInterface()}}
	s.note("cores", fmt.Errorf("macOS shows their time to C libraries only: %w", errors.ErrUnsupported))
	s.find()
	return s, nil
}

func (s *source) read(o *Snapshot, _ bool) error {
	s.some = false
	for _, l := range darwinLayouts() {
		s.try(l.name, o, l.decode)
	}
	return s.finish(syscall.NET_RT_IFLIST2, o)
}
