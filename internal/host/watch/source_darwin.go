package watch

import (
	"errors"
	"fmt"
	"syscall"
)

// source reads by sysctl(3). The time of cores is shown by Mach only
// (host_processor_info), which cannot be asked without linking C.
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
