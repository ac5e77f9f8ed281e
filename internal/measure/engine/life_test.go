package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestLifeRunsOnce(t *testing.T) {
	l := NewLife()
	_, end, err := l.Begin(t.Context())
	must.Do(t, err)
	must.True(t, !isClosed(l.Measured()) && !isClosed(l.Stopping()), "measured or stopped when it began")
	end(&err)
	must.True(t, isClosed(l.Measured()) && !isClosed(l.Stopping()), "the end of Run is not measured, or a stop")
	_, _, err = l.Begin(t.Context())
	must.True(t, err != nil, "it began twice")
}

func TestLifeClosedBeforeRun(t *testing.T) {
	l := NewLife()
	want := errors.New("busy")
	freed := 0
	for range 2 {
		must.Is(t, l.End(func() error { freed++; return want }), want, "error")
	}
	must.True(t, freed == 1, "freed %d times", freed)
	_, _, err := l.Begin(t.Context())
	must.True(t, err != nil, "it began although it is closed")
}

// TestLifeAtOnce calls everything at random moments: the test's resources are freed exactly
// once, and never while it runs.
func TestLifeAtOnce(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, seed))
			l := NewLife()
			var running, ran, freed atomic.Int32
			var all sync.WaitGroup
			at := func(f func()) {
				moment := time.Duration(rng.IntN(4)) * time.Millisecond
				all.Go(func() {
					<-time.After(moment)
					f()
				})
			}
			for range 2 {
				lasts := time.Duration(rng.IntN(8)) * time.Millisecond
				at(func() {
					_, end, err := l.Begin(t.Context())
					if err != nil {
						return
					}
					ran.Add(1)
					running.Add(1)
					select {
					case <-l.Stopping():
					case <-time.After(lasts):
						l.Complete()
					}
					<-time.After(time.Millisecond) // the end of its work
					running.Add(-1)
					end(&err)
				})
				at(l.Stop)
				at(func() {
					err := l.End(func() error {
						freed.Add(1)
						must.Equal(t, running.Load(), 0, "freed while it runs")
						return nil
					})
					must.True(t, err == nil && freed.Load() == 1, "error %v, freed %d times", err, freed.Load())
				})
			}
			all.Wait()
			must.True(t, ran.Load() <= 1 && isClosed(l.Stopping()) && (ran.Load() != 1 || isClosed(l.Measured())), "ran %d times, stopped %v, measured %v", ran.Load(), isClosed(l.Stopping()), isClosed(l.Measured()))
		})
	}
}

// TestLifeFails: a bug in a goroutine of a test ends Run's context and is Run's error, even if
// it happened before Run.
func TestLifeFails(t *testing.T) {
	bug, second := errors.New("bug"), errors.New("second")
	for _, before := range []bool{true, false} {
		l := NewLife()
		if before {
			l.Fail(bug)
		}
		run := func() (err error) {
			ctx, end, err := l.Begin(t.Context())
			if err != nil {
				return err
			}
			defer end(&err)
			if !before {
				go l.Fail(bug)
			}
			<-ctx.Done()
			l.Fail(second)
			return context.Cause(ctx)
		}
		err := run()
		must.True(t, errors.Is(err, bug) && !errors.Is(err, second), "before %t: %v", before, err)
		must.OK(t, l.End(func() error { return nil }))
	}
}

func TestFaults(t *testing.T) {
	all := func(f model.Flow) error {
		var faults Faults
		faults.Engine(f, "bulk")
		faults.Direction(f)
		faults.Amount(f)
		faults.Interval(f)
		faults.Window(f)
		faults.MSS(f)
		return faults.Err()
	}
	must.OK(t, all(model.Flow{Direction: model.From, Duration: 1, Interval: MinInterval, MSS: MaxMSS, Window: math.MaxInt32}), "a good flow")
	bad := model.Flow{
		Engine: "other", Direction: "up", Duration: -1, Omit: -1, Bytes: units.Bytes(-1), Interval: time.Millisecond, Window: -1, MSS: MinMSS - 1,
	}
	err := all(bad)
	must.Need(t, err != nil, "no fault")
	for _, want := range []string{
		`engine "other"`, `direction "up"`, "duration -1ns is negative", "omit -1ns is negative", "-1 bytes: negative", "duration and bytes exclude",
		"omit and bytes exclude", "interval 1ms", "window of -1", "segment size of 87",
	} {
		must.True(t, strings.Contains(err.Error(), want), "no fault with %q in\n%v", want, err)
	}
	err = all(model.Flow{Direction: model.To})
	must.True(t, err != nil && err.Error() == "neither duration nor bytes given", "a flow without an end: %v", err)
}
