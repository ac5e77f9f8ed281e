package run

import (
	"cmp"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
)

// source is the source of the machine's busy time: see sockio.SystemCPU.
const source = "the system's clock of busy processors"

// Processor is a reading of the CPU clocks. The zero value is that of a process that has just
// started.
type Processor struct {
	At      time.Duration // since the run's start, by the caller's clock
	process sockio.CPUTime
	busy    fact.Of[time.Duration] // of the whole machine; read at edges only
}

// Read reads the clock of the process, which takes some microseconds.
func Read(at time.Duration) Processor {
	r := Processor{At: at}
	// Supported wherever linerate runs; zero elsewhere.
	r.process, _ = sockio.ProcessCPU()
	return r
}

// ReadEdge reads the clocks of the process and of the whole machine, for the edge of a window.
func ReadEdge(at time.Duration) Processor {
	r := Read(at)
	busy, err := sockio.SystemCPU()
	if err != nil {
		r.busy = fact.Unknown[time.Duration](err.Error())
	} else {
		r.busy = fact.Known(busy, source)
	}
	return r
}

// Sample returns the sample of the interval from prev to r, at the end host of a run whose
// window opens at omit. The interval must not be empty.
func (r Processor) Sample(prev Processor, host model.Host, omit time.Duration) model.Sample {
	length := r.At - prev.At
	return model.Sample{
		Host: host, Metric: model.CPU, Value: r.process.Sub(prev.process).Total().Seconds() / length.Seconds(),
		Start: prev.At, Length: length, Omitted: prev.At < omit,
	}
}

// Fill sets in out what was used in the window. Both readings must be edges; the busy time is
// unknown if one is not, or if the system does not report it.
func Fill(out *model.EndReport, open, shut Processor) {
	used := shut.process.Sub(open.process)
	out.CPUUser, out.CPUSystem, out.CPUWindow = used.User, used.System, shut.At-open.At
	before, known := open.busy.Get()
	after, also := shut.busy.Get()
	if known && also && out.CPUWindow > 0 {
		out.SystemBusy = fact.Known((after-before).Seconds()/out.CPUWindow.Seconds(), source)
		return
	}
	out.SystemBusy = fact.Unknown[float64](cmp.Or(open.busy.Reason(), shut.busy.Reason(), "there was no window"))
}
