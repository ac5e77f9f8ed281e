package counters

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"unsafe"

	"golang.org/x/sys/windows"

	"linerate/internal/host/radio"
)

// source calls the system library. Windows has no network namespaces that a program could
// distinguish here; all counters are those of the compartment.
type source struct {
	gaps
	device        string
	index         int // 0 for no interface
	radio         *radio.Radio
	udp, tcp, ip  *windows.LazyProc
	cores, buffer []byte
}

func openSource(iface string) (*source, error) {
	lib := windows.NewLazySystemDLL("iphlpapi.dll")
	s := &source{
		device: iface, udp: lib.NewProc("GetUdpStatisticsEx"), tcp: lib.NewProc("GetTcpStatisticsEx"), ip: lib.NewProc("GetIpStatisticsEx"),
		cores: make([]byte, runtime.NumCPU()*ntCore), buffer: make([]byte, 4*23), // of MIB_IPSTATS, the largest of them
	}
	if iface != "" {
		i, err := net.InterfaceByName(iface)
		if err == nil {
			s.index = i.Index
		}
		s.note("interface "+iface, err)
		s.radio = openRadio(iface, &s.gaps)
	}
	return s, nil
}

func (s *source) missing() []string { return s.texts() }

func (s *source) close() error {
	if s.radio != nil {
		return s.radio.Close()
	}
	return nil
}

func (s *source) read(o *Snapshot, _ bool) error {
	some := false
	try := func(subject string, read func() error) {
		err := read()
		s.note(subject, err)
		some = some || err == nil
	}
	try("cores", func() error { return s.readCores(o) })
	for _, family := range []struct {
		name   string
		number uintptr
		six    bool
	}{{"IPv4", windows.AF_INET, false}, {"IPv6", windows.AF_INET6, true}} {
		udp, tcp, ip := ntLayouts(family.six)
		try("UDP over "+family.name, s.statistics(s.udp, family.number, udp, &o.values))
		try("TCP over "+family.name, s.statistics(s.tcp, family.number, tcp, &o.values))
		try(family.name, s.statistics(s.ip, family.number, ip, &o.values))
	}
	if s.index > 0 {
		try("interface "+s.device, func() error { return readInterface(s.index, &o.values) })
	}
	o.readRadio(s.radio, true, &s.gaps)
	if !some {
		return fmt.Errorf("nothing can be read: %q", s.texts())
	}
	return nil
}

// readCores reads the CPUs of the group that this thread runs in, which are all of them on
// machines with up to 64.
func (s *source) readCores(o *Snapshot) error {
	var n uint32
	err := windows.NtQuerySystemInformation(windows.SystemProcessorPerformanceInformation, unsafe.Pointer(&s.cores[0]), uint32(len(s.cores)), &n)
	if err != nil {
		return fmt.Errorf("NtQuerySystemInformation: %w", err)
	}
	if int(n) > len(s.cores) {
		return fmt.Errorf("NtQuerySystemInformation: %d bytes: %w", n, errShape)
	}
	const allGroups = 0xffff // ALL_PROCESSOR_GROUPS
	if total := windows.GetActiveProcessorCount(allGroups); int(total) != int(n)/ntCore {
		return fmt.Errorf("%d processors in several groups: %w", total, errors.ErrUnsupported)
	}
	o.cores, err = decodeNTCores(s.cores[:n])
	o.parts = coreParts{user: true, system: true, irq: true, softirq: true}
	return err
}

// statistics returns a function that calls proc for a family and decodes the result.
func (s *source) statistics(proc *windows.LazyProc, family uintptr, l layout, v *values) func() error {
	return func() error {
		if err := proc.Find(); err != nil {
			return fmt.Errorf("%s: %w", proc.Name, errors.ErrUnsupported)
		}
		clear(s.buffer)
		if r, _, _ := proc.Call(uintptr(unsafe.Pointer(&s.buffer[0])), family); r != 0 {
			return fmt.Errorf("%s: %w", proc.Name, windows.Errno(r))
		}
		return l.decode(s.buffer, v)
	}
}

func readInterface(index int, v *values) error {
	row := windows.MibIfRow2{InterfaceIndex: uint32(index)}
	if err := windows.GetIfEntry2Ex(windows.MibIfEntryNormal, &row); err != nil {
		return fmt.Errorf("GetIfEntry2Ex: %w", err)
	}
	v.set(nicRxPackets, row.InUcastPkts+row.InNUcastPkts)
	v.set(nicTxPackets, row.OutUcastPkts+row.OutNUcastPkts)
	v.set(nicRxBytes, row.InOctets)
	v.set(nicTxBytes, row.OutOctets)
	v.set(nicRxErrors, row.InErrors)
	v.set(nicTxErrors, row.OutErrors)
	v.set(nicRxDropped, row.InDiscards)
	v.set(nicTxDropped, row.OutDiscards)
	return nil
}
