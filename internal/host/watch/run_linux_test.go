package watch

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// steps are the intervals that samples arrived for.
type steps struct {
	mu     sync.Mutex
	starts []time.Duration
	length []time.Duration
}

func (s *steps) take(all []model.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, all[0].Start)
	s.length = append(s.length, all[0].Length)
}

func (s *steps) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.starts)
}

// TestRun: one step per interval, the rest when half an interval is over, and
// the counters of the whole.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		run  time.Duration
		want int
		last time.Duration // length of the last step
	}{
		{"whole seconds and little", 3200 * time.Millisecond, 3, time.Second},
		{"most of a second is not lost", 3600 * time.Millisecond, 4, 600 * time.Millisecond},
		{"no interval at all", 100 * time.Millisecond, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watching(t, "lo")
				start := time.Now().Add(-5 * time.Second) // the run began before the watching
				var s steps
				stop := w.Run(t.Context(), model.Near, 0, start, s.take)
				time.Sleep(c.run) // of the bubble's clock
				counters := stop()
				must.Need(t, len(s.starts) == c.want, "%d steps, want %d: %v", len(s.starts), c.want, s.starts)
				for i := range s.starts {
					if s.starts[i] != time.Duration(5+i)*time.Second || (i < c.want-1 && s.length[i] != time.Second) {
						t.Errorf("step %d from %v for %v", i, s.starts[i], s.length[i])
					}
				}
				must.True(t, c.want == 0 || s.length[c.want-1] == c.last, "the last of the steps %v is not %v long", s.length, c.last)
				must.True(t, find(counters, countersRead, "udp") != 0, "%+v", counters)
				again := stop()
				must.True(t, len(again) == len(counters) && len(s.starts) == c.want, "stopped twice: %+v", again)
			})
		})
	}
}

// TestRunEnds: with its context, and with a watcher that was closed.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watching(t, "")
		ctx, cancel := context.WithCancel(t.Context())
		var s steps
		stop := w.Run(ctx, model.Near, time.Second, time.Now(), s.take)
		time.Sleep(2500 * time.Millisecond)
		cancel()
		time.Sleep(10 * time.Second)
		must.Equal(t, s.count(), 2, "steps after the context ended")
		must.Do(t, w.Close())
		got := stop()
		must.True(t, find(got, countersRead, "cpu") != 0, "the readings up to the end: %+v", got)
		stop = w.Run(t.Context(), model.Near, time.Second, time.Now(), s.take)
		time.Sleep(2500 * time.Millisecond)
		got = stop()
		must.True(t, got == nil && s.count() == 2, "a closed watcher: %+v", got)
	})
}

// BenchmarkRead is the cost of one reading of everything. At one reading per
// second, 1 ms would be 0.1 % of one core.
func BenchmarkRead(b *testing.B) {
	for _, device := range []string{"", "lo", "eth0"} {
		b.Run("interface="+device, func(b *testing.B) {
			w := must.Get(Open(device))(b)
			defer w.Close()
			for _, m := range w.Missing() {
				b.Log(m)
			}
			b.ReportAllocs()
			for b.Loop() {
				must.Get(w.Read(time.Time{}))(b)
			}
		})
	}
}

// BenchmarkSamples is the cost of what follows a reading.
func BenchmarkSamples(b *testing.B) {
	w := must.Get(Open("lo"))(b)
	defer w.Close()
	first := must.Get(w.Read(time.Time{}))(b)
	second := must.Get(w.Read(time.Time{}))(b)
	b.ReportAllocs()
	for b.Loop() {
		Samples(model.Near, first, second, 0, time.Second)
	}
}
