package counters

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// source reads by sysctl(3). With VNET, network counters are those of the jail's own stack.
type source struct {
	sysctls
	tick time.Duration // of kern.cp_times, 0 if unknown
	log  kernelLog
}

func openSource(iface string) (*source, error) {
	s := &source{sysctls: sysctls{device: iface, message: freebsdInterface()}}
	b, err := unix.SysctlRaw("kern.clockrate")
	if err == nil {
		s.tick, err = decodeClockRate(b)
	}
	s.note("cores", err)
	s.find()
	s.note("kernel log", s.log.open(iface))
	return s, nil
}

func (s *source) close() error { return s.log.close() }

func (s *source) read(o *Snapshot, _ bool) error {
	s.some = false
	if s.tick > 0 {
		s.try("kern.cp_times", o, func(b []byte, _ *values) (err error) {
			o.cores, err = decodeFreeBSDCores(b, s.tick)
			o.parts = coreParts{user: true, system: true, irq: true}
			return err
		})
	}
	for _, l := range freebsdLayouts() {
		s.try(l.name, o, l.decode)
	}
	readZones(unix.SysctlRaw, &o.values)
	s.try("net.isr.work", o, func(b []byte, _ *values) (err error) {
		o.queues, err = decodeNetisr(b)
		return err
	})
	s.note("kernel log", s.log.read(&o.values))
	return s.finish(syscall.NET_RT_IFLIST, o)
}
