package goruntime

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"linerate/internal/must"
)

// percent returns the collector's percentage without setting it.
func percent() int {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return int(int32(s[0].Value.Uint64())) // as the runtime stores it: off is negative
}

// setPercent sets the collector's percentage for the test.
func setPercent(t *testing.T, p int) {
	t.Helper()
	before := debug.SetGCPercent(p)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

func check(t must.TB, procs, gc int) {
	t.Helper()
	must.Equal(t, runtime.GOMAXPROCS(0), procs, "GOMAXPROCS")
	must.Equal(t, percent(), gc, "the collector's percentage")
}

// TestAnyOrder begins and ends holds in any order: at every moment the process has room for all
// of them, and after the last one the old settings.
func TestAnyOrder(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	rapid.Check(t, func(t *rapid.T) {
		initial := rapid.SampledFrom([]int{off, 0, 50, 100, 1000}).Draw(t, "percentage")
		defer debug.SetGCPercent(debug.SetGCPercent(initial))
		type begun struct {
			*Hold
			threads int
			collect bool
		}
		var holds []begun
		var ended []*Hold
		verify := func() {
			t.Helper()
			sum, want := procs, initial
			for _, h := range holds {
				sum += h.threads
				if !h.collect {
					want = off
				}
			}
			check(t, sum, want)
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				h := begun{threads: rapid.IntRange(0, 9).Draw(t, "threads"), collect: rapid.Bool().Draw(t, "collect")}
				if h.collect {
					h.Hold = Room(h.threads)
				} else {
					h.Hold = Begin(h.threads)
				}
				holds = append(holds, h)
			},
			"end": func(t *rapid.T) {
				must.SkipIf(t, len(holds) == 0, "no hold is there by now: rapid chooses something else")
				i := rapid.IntRange(0, len(holds)-1).Draw(t, "which")
				holds[i].End()
				ended = append(ended, holds[i].Hold)
				holds = append(holds[:i], holds[i+1:]...)
			},
			"end again": func(t *rapid.T) {
				must.SkipIf(t, len(ended) == 0, "no hold is there by now: rapid chooses something else")
				rapid.SampledFrom(ended).Draw(t, "which").End()
			},
			"": func(*rapid.T) { verify() },
		})
		for _, h := range holds {
			h.End()
		}
		holds = nil
		verify()
	})
}

// TestAtOnce begins and ends holds from many goroutines, as engines, servers and clients of one
// process do: each finds the room that it requested, and the settings are restored in the end.
func TestAtOnce(t *testing.T) {
	setPercent(t, 100)
	procs := runtime.GOMAXPROCS(0)
	var all sync.WaitGroup
	for g := range 16 {
		rng := rand.New(rand.NewPCG(1, uint64(g)))
		all.Go(func() {
			for range 60 {
				a, b := rng.IntN(3), rng.IntN(3)
				begin := Begin
				if rng.IntN(2) == 0 {
					begin = Room
				}
				first, second := begin(a), Begin(b)
				now := runtime.GOMAXPROCS(0)
				must.True(t, now >= procs+a+b, "GOMAXPROCS is %d during holds of %d and %d, and was %d", now, a, b, procs)
				must.Equal(t, percent(), off, "the collector's percentage during a hold")
				first.Check()
				first.End()
				all.Go(second.End) // elsewhere, and at the same time as the next
				second.End()
			}
		})
	}
	all.Wait()
	check(t, procs, 100)
}

// limit forces collections after a growth that a test can afford.
func limit(t *testing.T, growth uint64) {
	t.Helper()
	process.mu.Lock()
	defer process.mu.Unlock()
	before, every := process.growth, process.every
	process.growth, process.every = growth, time.Millisecond
	t.Cleanup(func() {
		process.mu.Lock()
		defer process.mu.Unlock()
		process.growth, process.every = before, every
	})
}

const (
	growth = 16 << 20
	chunk  = 256 << 10
)

// litter makes garbage until done, but no more while the heap exceeds the limit: a check comes
// after a millisecond, or after seconds on a busy machine. It fails if the heap stays above it.
func litter(t *testing.T, done func(made int) bool) {
	t.Helper()
	for made := 0; !done(made); made += chunk {
		must.Within(t, time.Minute, "a check of the heap", func() bool { return grown() < growth || done(made) })
		runtime.KeepAlive(make([]byte, chunk))
	}
}

func TestGrowthIsBounded(t *testing.T) {
	for name, hold := range map[string]func() (end func()){
		"one that is never ended": func() func() { return Begin(0).End },
		"always some": func() func() { // each ends after the next one began
			return churn(func(previous *Hold) *Hold {
				next := Begin(1)
				if previous != nil {
					previous.End()
				}
				return next
			})
		},
		"begun as soon as ended": func() func() {
			return churn(func(previous *Hold) *Hold {
				if previous != nil {
					previous.End()
				}
				return Begin(0)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			setPercent(t, 100)
			limit(t, growth)
			procs := runtime.GOMAXPROCS(0)
			end := hold()
			litter(t, func(made int) bool { return made >= 10*growth })
			end()
			check(t, procs, 100)
		})
	}
}

// churn replaces a hold by the next one until it is stopped.
func churn(replace func(*Hold) *Hold) (stop func()) {
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		var h *Hold
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			h = replace(h)
			select {
			case <-quit:
				h.End()
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		close(quit)
		running.Wait()
	}
}

func TestCheck(t *testing.T) {
	setPercent(t, 100)
	limit(t, growth)
	first, second, room := Begin(0), Begin(0), Room(0)
	for _, h := range []*Hold{first, second, room} {
		defer h.End()
		must.True(t, !h.Check(), "told of a collection before there was one")
	}
	litter(t, func(int) bool { return first.Check() })
	must.True(t, second.Check(), "one hold was told of a collection, another was not")
	third := Begin(0)
	defer third.End()
	for name, h := range map[string]*Hold{"first": first, "second": second, "third": third, "room": room} {
		must.True(t, !h.Check(), "%s reports a collection twice, or one before it, or although it lets them run", name)
	}
	litter(t, func(int) bool { return third.Check() })
	must.True(t, !first.Check(), "told twice")
	must.Equal(t, testing.AllocsPerRun(100, func() { first.Check() }), 0, "Check allocates times")
}

// TestRoomCollects: the runtime collects the garbage of a measurement that uses Room.
func TestRoomCollects(t *testing.T) {
	setPercent(t, 100)
	defer Room(3).End()
	check(t, runtime.GOMAXPROCS(0), 100)
	process.mu.Lock()
	defer process.mu.Unlock()
	must.True(t, process.off == 0 && process.next == nil, "collections are held off")
}

// TestOffStaysOff: a process that runs without collections gets none.
func TestOffStaysOff(t *testing.T) {
	setPercent(t, off)
	limit(t, 1<<20)
	h := Begin(0)
	defer h.End()
	litter(t, func(made int) bool { return made >= growth/2 })
	process.mu.Lock()
	defer process.mu.Unlock()
	must.True(t, process.next == nil && grown() >= growth/4 && !h.Check(), "garbage is collected in a process that wants none of that")
}
