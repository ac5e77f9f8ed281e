package session

import (
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
)

// ErrGreedy reports that an agent sent more than its run allows. The connection is then cut,
// and every further call fails. Only Client returns it.
var ErrGreedy = errors.New("the agent sent more than this run can have")

// How many samples one end of a run sends at most.
const (
	// flowSeries is per interval of the flow: every metric of package model, for both
	// directions and for neither, and as many of a load beside it.
	flowSeries = 160
	// hostSeries is per second: what watch.Run reads of the host.
	hostSeries = 4096
	// perPoint is per point, such as a message size.
	perPoint = 8
)

// allowance is how much an agent may send about one run, given its plan and the time that has
// passed here: an agent cannot have measured for longer than that.
type allowance struct {
	interval time.Duration // of the flow
	points   int           // that the run reports
	begun    time.Time     // when the run was ready
	samples  int           // so far
	measured bool
}

func newAllowance(f model.Flow) *allowance {
	a := &allowance{interval: f.Interval, points: f.Points}
	if a.interval <= 0 {
		a.interval = time.Second
		if f.Duration > 0 {
			a.interval = max(min(a.interval, f.Duration), MinInterval)
		}
	}
	return a
}

// most returns how many samples there may be after this much time. It allows two more intervals
// than have passed: the one in which the run ends, and one for clocks that differ.
func (a *allowance) most(passed time.Duration) int {
	steps := passed/a.interval + 2
	seconds := passed/time.Second + 2
	return int(steps)*flowSeries + int(seconds)*hostSeries + a.points*perPoint
}

// take counts an event that arrived at now. It returns an error that wraps ErrGreedy if that is
// one too many.
func (a *allowance) take(e Event, now time.Time) error {
	switch e.Kind {
	case Ready:
		a.begun = now
	case Samples:
		a.samples += len(e.Samples)
		if most := a.most(now.Sub(a.begun)); a.samples > most {
			return fmt.Errorf("%w: over %d samples in %v", ErrGreedy, most, now.Sub(a.begun).Round(time.Millisecond))
		}
	case Measured:
		if a.measured {
			return fmt.Errorf("%w: it has measured twice", ErrGreedy)
		}
		a.measured = true
	case Result:
		if n := len(e.Report.Points); n > a.points {
			return fmt.Errorf("%w: %d points, where %d were asked for", ErrGreedy, n, a.points)
		}
	}
	return nil
}
