package counters

import (
	"context"
	"sync"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/panics"
)

// tolerable is the most that reading the driver's own counters may take for every sample:
// some drivers query their firmware, and block all changes of interfaces meanwhile.
const tolerable = time.Millisecond

// Run reads the counters now and then once per interval in its own goroutine, and passes the
// samples of each interval of host to emit. start is when the run began; samples count from
// there. It ends with ctx or when stop is called. stop waits for the goroutine, emits the
// rest of an interval if at least half of it is over, and returns how far the counters moved
// since Run was called. stop may be called more than once and always returns the same. An
// interval of 0 means one second.
//
// A panic of that goroutine continues in the caller of stop.
//
// The driver's own counters are read each time only if that is quick, and always at the start
// and the end.
func (w *Watcher) Run(ctx context.Context, host model.Host, interval time.Duration, start time.Time, emit func([]model.Sample)) (stop func() []model.Counter) {
	if interval <= 0 {
		interval = time.Second
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &loop{watcher: w, host: host, start: start, emit: emit}
	began := time.Now()
	r.first, r.err = w.read(began, true)
	r.slow = time.Since(began) > tolerable
	r.last = r.first
	var running panics.Group
	running.Go(func() { r.run(ctx, interval) })
	var once sync.Once
	var counters []model.Counter
	return func() []model.Counter {
		once.Do(func() {
			cancel()
			running.Wait()
			counters = r.finish(interval)
		})
		return counters
	}
}

type loop struct {
	watcher     *Watcher
	host        model.Host
	start       time.Time
	emit        func([]model.Sample)
	first, last Snapshot
	err         error // of the first reading
	slow        bool
}

func (r *loop) run(ctx context.Context, interval time.Duration) {
	if r.err != nil {
		return
	}
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if next, err := r.watcher.read(time.Now(), !r.slow); err == nil {
				r.step(next)
			}
		}
	}
}

// step emits the changes since the last reading.
func (r *loop) step(next Snapshot) {
	length := next.at.Sub(r.last.at)
	if samples := Samples(r.host, r.last, next, r.last.at.Sub(r.start), length); len(samples) > 0 {
		r.emit(samples)
	}
	r.last = next
}

func (r *loop) finish(interval time.Duration) []model.Counter {
	if r.err != nil {
		return nil
	}
	end, err := r.watcher.read(time.Now(), true)
	if err != nil {
		end = r.last // closed meanwhile: up to the last reading
	} else if end.at.Sub(r.last.at) >= interval/2 {
		r.step(end)
	}
	return Delta(r.first, end)
}
