package peer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/iperf3"
	"linerate/internal/panics"
)

// way is one direction of a test at one end. The directions of a bidirectional test end at
// different times, so each is an engine test of its own.
type way struct {
	direction model.Direction
	role      model.Role
	spec      model.Flow
	streams   []iperf3.Stream
	test      engine.Test
	warnings  []string                     // of the opening
	account   func() []iperf3.StreamResult // per stream, once over is closed, before close
	kept      []*kept                      // of a TCP way
	udp       *udpTest                     // of a UDP way

	mu    sync.Mutex
	moved float64   // payload bytes according to samples
	last  time.Time // time of the last sample with payload

	// The server's check of incoming UDP.
	seen   int64         // bytes
	looked time.Duration // since the test began
	above  float64       // bits received above the limit

	over    chan struct{} // closed when report and err are set
	report  model.EndReport
	err     error
	results []iperf3.StreamResult // once stopped
	theirs  []iperf3.StreamResult // the other end's results of the streams, once received
}

// start runs the way until it is complete or stopped.
func (l *way) start(ctx context.Context, emit func([]model.Sample)) {
	l.over = make(chan struct{})
	l.last = time.Now()
	go func() {
		defer close(l.over)
		l.err = panics.Call(func() (err error) {
			l.report, err = l.test.Run(ctx, func(s []model.Sample) {
				l.watch(s)
				emit(s)
			})
			return err
		})
	}()
}

// watch records how much moved.
func (l *way) watch(samples []model.Sample) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range samples {
		if (s.Metric == model.Sent || s.Metric == model.Goodput) && s.Value > 0 {
			l.moved += s.Value * s.Length.Seconds() / 8
			l.last = time.Now()
		}
	}
}

// progress returns how many bytes the samples so far show, and when they last showed any.
func (l *way) progress() (bytes float64, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.moved, l.last
}

// stop ends the way and counts its streams. It reports whether the way was still running. It
// may be called again.
func (l *way) stop() bool {
	running := !closed(l.over)
	l.test.Stop()
	<-l.over
	if l.results == nil {
		l.results = l.account()
	}
	return running
}

// close frees the connections. It is idempotent.
func (l *way) close() error {
	err := l.test.Close()
	for _, k := range l.kept {
		// If the second handle is the first one, the test has closed it.
		_ = k.conn.Close()
	}
	return err
}

// flow returns this end's report of the direction; false if the run returned none.
func (l *way) flow() (model.FlowReport, bool) {
	i := slices.IndexFunc(l.report.Flows, func(f model.FlowReport) bool { return f.Direction == l.direction })
	if i < 0 {
		return model.FlowReport{}, false
	}
	return l.report.Flows[i], true
}

// merge combines the ways' reports. Each has the CPU time of the whole process, so it takes one
// of them: a receiver's, if there is one.
func merge(host model.Host, ways []*way) (model.EndReport, error) {
	main := ways[0]
	for _, l := range ways {
		if l.role == model.Receiver {
			main = l
		}
	}
	out := main.report
	out.Host, out.Flows, out.Warnings, out.Values = host, nil, nil, nil
	var errs []error
	for _, l := range ways {
		out.Flows = append(out.Flows, l.report.Flows...)
		out.Values = append(out.Values, l.report.Values...)
		for _, w := range slices.Concat(l.warnings, l.report.Warnings) {
			if !slices.Contains(out.Warnings, w) {
				out.Warnings = append(out.Warnings, w)
			}
		}
		errs = append(errs, l.err)
	}
	return out, errors.Join(errs...)
}

// onlyOnce returns an emit function for each way, safe for concurrent use. Only one of them
// passes on the samples of the process.
func onlyOnce(emit func([]model.Sample), ways int) []func([]model.Sample) {
	var mu sync.Mutex
	out := make([]func([]model.Sample), ways)
	for i := range out {
		out[i] = func(s []model.Sample) {
			if i > 0 {
				s = slices.DeleteFunc(s, func(s model.Sample) bool { return s.Direction == "" })
			}
			if len(s) == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			emit(s)
		}
	}
	return out
}
