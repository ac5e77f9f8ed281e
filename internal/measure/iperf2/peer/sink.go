package peer

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"linerate/internal/core/model"
)

// sink collects the reports of one session's halves at this end.
type sink struct {
	host  model.Host
	start time.Time
	emit  func([]model.Sample)

	mu      sync.Mutex
	report  model.EndReport
	faults  []error
	running int // halves that emit samples
}

func newSink(host model.Host, emit func([]model.Sample)) *sink {
	if emit == nil {
		emit = func([]model.Sample) {}
	}
	return &sink{host: host, start: time.Now(), emit: emit, report: model.EndReport{Host: host}}
}

// begin returns the function that takes a half's samples, whose times count from the half's
// start, and one to call when the half has ended. If halves run at once, only the first one's
// samples of the host itself are kept.
func (s *sink) begin() (emit func([]model.Sample), end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset, first := time.Since(s.start), s.running == 0
	s.running++
	emit = func(list []model.Sample) {
		kept := make([]model.Sample, 0, len(list))
		for _, one := range list {
			if one.Direction == "" && !first {
				continue
			}
			one.Start += offset
			kept = append(kept, one)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(kept) > 0 {
			s.emit(kept)
		}
	}
	return emit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}
}

// add adds a half's report. The CPU times are those of the receiving half, if there is one.
func (s *sink) add(r model.EndReport, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	into := &s.report
	received := len(r.Flows) > 0 && r.Flows[0].Role == model.Receiver
	if into.CPUWindow == 0 || received && r.CPUWindow > 0 {
		into.CPUUser, into.CPUSystem, into.CPUWindow = r.CPUUser, r.CPUSystem, r.CPUWindow
		into.SystemBusy, into.Waiting = r.SystemBusy, r.Waiting
	}
	into.Flows = append(into.Flows, r.Flows...)
	into.Warnings = append(into.Warnings, r.Warnings...)
	if err != nil {
		s.faults = append(s.faults, err)
	}
}

func (s *sink) warn(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Warnings = append(s.report.Warnings, fmt.Sprintf(format, args...))
}

// result returns the collected report and errors.
func (s *sink) result() (model.EndReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report, errors.Join(s.faults...)
}
