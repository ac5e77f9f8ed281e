package health

import (
	"net/netip"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
)

// Others returns how many processors of the host with facts f were busy during run r beyond the
// load of the run's ends: with other programs, and the kernel's own work such as interrupts. of
// is the number of processors. together says that both ends are on one machine. It reports
// false if the system has no counter, or counts more than there are, which is a measurement
// fault.
func Others(f model.HostFacts, r model.Run, end model.EndReport, together bool) (others float64, of int, ok bool) {
	busy, of, ok := busyOf(f, end)
	if !ok {
		return 0, of, false
	}
	for _, e := range r.Ends {
		if e.CPUWindow > 0 && (together || e.Host == end.Host) {
			busy -= float64(e.CPUUser+e.CPUSystem) / float64(e.CPUWindow)
		}
	}
	return max(0, busy), of, true
}

// tick is the resolution of a processor's time, in seconds: Linux counts each of its four parts
// in ticks of 10 ms (include/asm-generic/param.h, USER_HZ 100).
const tick = 4 * 0.010

// busyOf returns how many processors of a host were busy in total, and how many it has: facts
// may count only those that the process may use.
func busyOf(f model.HostFacts, end model.EndReport) (busy float64, of int, ok bool) {
	busy, ok = end.SystemBusy.Get()
	of = f.CPUs
	if f.Machine != nil {
		of = max(of, f.Machine.Threads.Or(0))
	}
	listed := lists.Count(end.Counters, func(c model.Counter) bool { return c.Name == "cpu_busy_ms" && strings.HasPrefix(c.Of, "cpu") })
	of = max(of, listed)
	if !ok || end.CPUWindow <= 0 || of == 0 || busy > float64(of)*(1+tick/end.CPUWindow.Seconds()) {
		return 0, of, false
	}
	return min(busy, float64(of)), of, true
}

// Crowded reports whether other programs used most of the of processors of an end.
func Crowded(others float64, of int) bool { return of > 0 && others >= crowd*float64(of) }

// OneMachine reports whether both ends are on one machine: in a lab, or over loopback.
func OneMachine(s *model.Session) bool {
	if len(s.Hosts) == 0 || strings.HasPrefix(s.Far, "lab:") {
		return len(s.Hosts) > 0
	}
	address, err := netip.ParseAddr(s.Hosts[0].Address)
	return err == nil && address.IsLoopback()
}
