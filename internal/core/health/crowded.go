package health

import (
	"linerate/internal/core/model"
)

// Others is how many of the processors of end were busy during run r with what is not
// linerate's: other programs, and what the kernel does for nobody in particular, as its
// interrupts. 1 is one processor. false where the system does not tell. The use of the
// other end is taken off, too: in a lab, or over loopback, both are one machine.
func Others(r model.Run, end model.EndReport) (float64, bool) {
	busy, ok := end.SystemBusy.Get()
	if !ok || end.CPUWindow <= 0 {
		return 0, false
	}
	for _, e := range r.Ends {
		if e.CPUWindow > 0 {
			busy -= float64(e.CPUUser+e.CPUSystem) / float64(e.CPUWindow)
		}
	}
	return max(0, busy), true
}

// Crowded reports whether others had most of the processors, so many as cpus, of an end
// while run r was measured.
func Crowded(r model.Run, end model.EndReport, cpus int) bool {
	others, ok := Others(r, end)
	return ok && cpus > 0 && others >= crowd*float64(cpus)
}
