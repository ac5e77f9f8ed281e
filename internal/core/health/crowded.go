package health

import (
	"linerate/internal/core/model"
)

// Others is how many of the processors of end were busy during run r with what is no end
// of it: other programs, and what the kernel does for nobody in particular, as its
// interrupts. 1 is one processor. false where the system does not tell. together says
// that both ends are on one machine, as in a lab or over loopback.
func Others(r model.Run, end model.EndReport, together bool) (float64, bool) {
	busy, ok := end.SystemBusy.Get()
	if !ok || end.CPUWindow <= 0 {
		return 0, false
	}
	for _, e := range r.Ends {
		if e.CPUWindow > 0 && (together || e.Host == end.Host) {
			busy -= float64(e.CPUUser+e.CPUSystem) / float64(e.CPUWindow)
		}
	}
	return max(0, busy), true
}

// Crowded reports whether others are most of the processors, so many as cpus, of an end.
func Crowded(others float64, cpus int) bool { return cpus > 0 && others >= crowd*float64(cpus) }
