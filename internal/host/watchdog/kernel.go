package watchdog

import (
	"regexp"

	"linerate/internal/core/model"
	"linerate/internal/host/kmsg"
	hostknob "linerate/internal/host/knob"
)

// KernelMark begins every line for Config.Talk about a fault that the kernel logged while a
// setting was written.
const KernelMark = "kernel: "

// kernelLog is the part of package kmsg used here.
type kernelLog interface {
	Each(yield func(line string)) error
	Close() error
}

func openKernelLog() (kernelLog, error) { return kmsg.Open() }

// kernelFault matches the line of the kernel log that names a fault in its own code: what
// WARN, BUG and Oops print (Linux kernel/panic.c, arch/x86/mm/fault.c), and a transmitter
// that hangs (net/sched/sch_generic.c).
var kernelFault = regexp.MustCompile(`^(WARNING: |BUG: |kernel BUG at |Oops: |general protection fault|NETDEV WATCHDOG: )`)

// ear listens to the kernel log while something is written.
type ear struct {
	m   *machine
	log kernelLog // nil if this user may not read it, or there is none
}

func (m *machine) listen() ear {
	log, err := m.sys.kernel()
	if err != nil {
		return ear{m: m} // without a log, settings are written all the same
	}
	return ear{m: m, log: log}
}

// tell reports the first fault since the last call, and the write that it came with.
func (e ear) tell(id model.KnobID, p hostknob.Place, what string) {
	if e.log == nil {
		return
	}
	first := ""
	_ = e.log.Each(func(line string) {
		if first == "" && kernelFault.MatchString(line) {
			first = line
		}
	})
	if first == "" {
		return
	}
	name := string(id)
	if p.Target != "" {
		name += " of " + p.Target
	}
	e.m.boot.talkf(KernelMark, "while %s was %s: %s (dmesg has the rest; the fault is the driver's)", name, what, first)
}

func (e ear) close() {
	if e.log != nil {
		_ = e.log.Close()
	}
}
