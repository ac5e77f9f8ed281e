package reqresp

import (
	"errors"
	"fmt"
	"time"

	"linerate/internal/core/model"
)

// sample ends the current interval and emits its samples.
func (r *course) sample(at time.Duration) {
	r.Interval(at, r.phase == warming, true, func(length time.Duration, add func(model.Direction, model.Metric, float64)) {
		if r.phase >= draining || length <= 0 {
			return
		}
		h, d := turn(&r.asking.epoch, r.asking.meters), r.asking.direction
		add(d, r.rateMetric(), float64(h.Count())/length.Seconds())
		if v, known := h.Quantile(0.5).Get(); known {
			add(d, model.LatencyP50, v.Seconds())
		}
		if v, known := h.Percentile(0.99, 0).Get(); known {
			add(d, model.LatencyP99, v.Seconds())
		}
	})
}

// rateMetric returns the metric of the request rate.
func (r *course) rateMetric() model.Metric {
	if r.spec.Requests.Connect {
		return model.ConnectRate
	}
	return model.RequestRate
}

// report returns this end's report, or the reason why there is no result.
func (r *course) report() (model.EndReport, error) {
	out := r.Report(r.waiter.waiting())
	var faults []error
	if r.asking != nil {
		faults = append(faults, r.reportAsking(&out))
	}
	if r.answering != nil {
		faults = append(faults, r.reportAnswering(&out))
	}
	return out, errors.Join(faults...)
}

// warnf adds a warning about direction d.
func warnf(out *model.EndReport, d model.Direction, format string, args ...any) {
	out.Warnings = append(out.Warnings, fmt.Sprintf("%s: ", d)+fmt.Sprintf(format, args...))
}

// reportAsking adds the asking half.
func (r *course) reportAsking(out *model.EndReport) error {
	a, d := r.asking, r.asking.direction
	t := a.count()
	sent := r.due(t)
	if r.window == 0 {
		return fmt.Errorf("%s: %s before the measured window", d, r.cut)
	}
	if t.answered == 0 {
		why := r.cut
		if f := a.failures(); why == "" && f.first != nil {
			why = f.first.Error()
		}
		return fmt.Errorf("%s: none of %d requests was answered: %s", d, sent, orElse(why, "the answering end is silent"))
	}
	out.Flows = append(out.Flows, a.flow(r.window))
	rate := float64(t.completed) / r.window.Seconds()
	out.Values = append(out.Values, model.Value{Direction: d, Metric: r.rateMetric(), Value: rate})
	for _, q := range []struct {
		metric model.Metric
		name   string
		q      float64
	}{{model.LatencyP50, "median latency", 0.5}, {model.LatencyP99, "99th percentile of latency", 0.99}} {
		v := quantile(t.latency, q.q, sent)
		if seconds, known := v.Get(); known {
			out.Values = append(out.Values, model.Value{Direction: d, Metric: q.metric, Value: seconds.Seconds()})
		} else {
			warnf(out, d, "no %s: %s", q.name, v.Reason())
		}
	}
	lost := sent - t.answered
	out.Latencies = append(out.Latencies, model.Latency{Name: model.LatencyRequest, Direction: d, Times: t.latency, Sent: sent, Lost: lost})
	if r.spec.Requests.Rate > 0 {
		out.Latencies = append(out.Latencies, model.Latency{
			Name: model.LatencyServed, Direction: d, Times: t.service, Sent: t.issued, Lost: t.issued - t.answered,
		})
	}
	r.complain(out, t, lost, rate)
	return nil
}

// orElse returns s, or empty if s is empty.
func orElse(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

// due returns how many requests belong to the window. Scheduled requests count even if they
// were never sent, unless the run was cut short.
func (r *course) due(t tally) int64 {
	rate := r.spec.Requests.Rate
	if rate == 0 || r.cut != "" {
		return t.issued
	}
	return max(t.issued, arrivals(r.shut(), rate)-arrivals(r.spec.Omit, rate))
}

// leastKept is the part of the planned window, or rate, below which a run has a warning
// (statistics.md section 1 rule 5).
const leastKept = 0.9

// complain adds warnings about deviations from the plan.
func (r *course) complain(out *model.EndReport, t tally, lost int64, rate float64) {
	a, d := r.asking, r.asking.direction
	if r.cut != "" {
		warnf(out, d, "%s after %v of %v", r.cut, r.window.Round(time.Millisecond), r.spec.Duration)
	} else {
		ended := 0
		var reason error
		for _, w := range a.workers {
			if w.reason != nil && !errors.Is(w.reason, errStopped) {
				ended, reason = ended+1, w.reason
			}
		}
		if ended > 0 {
			warnf(out, d, "%d of %d connections ended early: %v", ended, len(a.workers), reason)
		}
	}
	if f := a.failures(); f.all > 0 {
		warnf(out, d, "%d fresh connections failed, the first: %v", f.all, f.first)
	}
	if lost > 0 {
		warnf(out, d, "%d requests were not answered within %v of the end", lost, r.engine.patience)
	}
	asked := r.spec.Requests.Rate
	if asked == 0 {
		return
	}
	if rate < leastKept*asked && r.cut == "" {
		warnf(out, d, "%.0f of %.0f requests per second were answered: the schedule was not kept, and latencies grow with the length of the run", rate, asked)
	}
	slip, known := t.slips.Quantile(0.99).Get()
	slow, also := t.service.Quantile(0.99).Get()
	if known && also && slip > slow {
		warnf(out, d, "the asking end kept its own schedule to within %v only (p99), which is part of the latencies", slip.Round(time.Microsecond))
	}
	// The requests it sent that late are more than 1 % of all: they are in p99.
	if held := t.slips.Max().Or(0); held > r.window/100 {
		warnf(out, d, "the asking end itself was held up for %v, which is part of the latencies", held.Round(time.Millisecond))
	}
}

// reportAnswering adds the answering half.
func (r *course) reportAnswering(out *model.EndReport) error {
	a, d := r.answering, r.answering.direction
	f := a.flow(r.closing)
	switch {
	case r.lost != "" && f.Bytes == 0:
		return fmt.Errorf("%s: %s before a request of the window came", d, r.lost)
	case r.lost != "":
		warnf(out, d, "%s before the asking end was done", r.lost)
	case r.closing.window == 0:
		return fmt.Errorf("%s: the asking end stopped before the measured window", d)
	case r.closing.window < r.spec.Duration:
		warnf(out, d, "the asking end stopped after %v of %v", r.closing.window.Round(time.Millisecond), r.spec.Duration)
	}
	for _, err := range a.faults() {
		warnf(out, d, "a connection ended early: %v", err)
		break // they fail together
	}
	out.Flows = append(out.Flows, f)
	return nil
}
